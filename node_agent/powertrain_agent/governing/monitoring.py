"""Monitoring: what states do with readings, steps and the passing of time; above all, the guard."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from powertrain.api.conditions import ConditionStatus, find
from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governing import (
    budget_changes,
    climbing_without_steps,
    lowering,
    profiling,
    running,
    sensor_loss,
    trials,
)
from powertrain_agent.governing.budget_guard import GuardAction
from powertrain_agent.governing.commands import CloseGate, LimitsBroken, OpenGate, SetFan
from powertrain_agent.governing.events import ReportDue, Tick
from powertrain_agent.governing.failures import FAILING, LOOP, RECOVERED
from powertrain_agent.governing.states import (
    Blind,
    Holding,
    Planning,
    Restoring,
    Revisiting,
    Running,
    Served,
    Starting,
    Trial,
    WaitingForSteps,
)
from powertrain_agent.governing.turn import Turn
from powertrain_agent.planning.messages import Question
from powertrain_agent.steps import MAX_NUMBER, Kind, StepsSeen, TrainingSaid
from powertrain_agent.telemetry import Reading

SUPPLY, GPU = "Supply", "UsesGPU"
# A container is not trusted: it may change what it says, but not the PowerNode with every word.
GPU_NEWS_S = 60.0

Still = TypeVar("Still", bound=Starting | WaitingForSteps | Holding | Blind | Restoring)
Trying = TypeVar("Trying", bound=Trial)
S = TypeVar("S", bound=Served)

# Readings


async def on_reading(turn: Turn, state: Still, event: Reading) -> Still:
    """Guard the mode."""
    if _judge(turn, event) is GuardAction.LOWER:
        await lowering.lower(turn, event)
    turn.drift.power(event.at_s, event.power_w)
    return state


async def on_reading_while_planning(turn: Turn, state: Planning, event: Reading) -> Planning | Running:
    """Guard the mode; an answer from before would go up again, so the question no longer counts."""
    after: Planning | Running = state
    action = _judge(turn, event)
    if action is GuardAction.NONE:
        await trials.rest_if_due(turn)
    if action is GuardAction.LOWER:
        if turn.is_running and state.question in (Question.CHOICE, Question.CHECK):
            after = Running()  # after the quiet time it is asked anew
        await lowering.lower(turn, event)
    elif action is GuardAction.RAISE and turn.is_running:
        turn.guard.keep_lowered(event.at_s)
    turn.drift.power(event.at_s, event.power_w)
    return after


async def on_reading_while_running(turn: Turn, state: Running, event: Reading) -> Running | Planning:
    """Guard the mode, and go back up after a quiet time."""
    after: Running | Planning = state
    action = _judge(turn, event)
    if action is GuardAction.LOWER:
        after = Running(state.retry_at_s)
        await lowering.lower(turn, event)
    elif state.rests_until_s is not None:
        after = await running.end_rest(turn, state, state.rests_until_s)
    elif running.is_unsteady(turn, event):
        after = turn.ask(Question.CHOICE)
    elif action is GuardAction.RAISE:
        after = await running.go_up(turn, state)
    turn.drift.power(event.at_s, event.power_w)
    return after


async def on_reading_in_trial(turn: Turn, state: Trying, event: Reading) -> Trying:
    """Guard the mode that is tried, and measure it."""
    await trials.take_reading(turn, state.visit, event, _judge(turn, event))
    return state


def _judge(turn: Turn, reading: Reading) -> GuardAction:
    """Count a reading, and ask the guard what to do; before a mode is set nothing trains and nothing can be lowered."""
    last, guard = turn.facts.last_reading, turn.guard
    if last is not None:
        turn.record.energy_j += 0.5 * (last.power_w + reading.power_w) * max(0.0, reading.at_s - last.at_s)
    turn.saw(reading)
    turn.session.periods = turn.watch.power(reading)
    if turn.record.mode is None:
        return GuardAction.NONE
    windows, readings = guard.violations, guard.hard_violations
    action = guard.power(reading)
    violations = LimitsBroken(guard.violations - windows, guard.hard_violations - readings)
    if violations.windows or violations.readings:
        turn.record.violations += violations.windows + violations.readings
        turn.do(violations)
    return action


# Steps


async def on_steps(turn: Turn, state: S, event: StepsSeen) -> S | Planning | Holding | Running:
    """Count steps; the first ones begin the profiling."""
    first = _count(turn, event)
    return first_step(turn) if first and turn.record.gate_open else state


def on_steps_only_counted(turn: Turn, state: S, event: StepsSeen) -> S:
    """Count steps; what follows from the first ones waits until the session goes on."""
    if _count(turn, event):
        _note_steps(turn)
    return state


async def on_steps_in_trial(turn: Turn, state: Trying, event: StepsSeen) -> Trying:
    """Count steps and measure them."""
    _count(turn, event)
    await trials.give(turn, state.visit, state.visit.steps(event, turn.facts.planner_busy))
    return state


def on_training_said(turn: Turn, state: S, event: TrainingSaid) -> S:
    """Note an epoch that ended, an accuracy that was reached, or where the training computes."""
    match event.kind:
        case Kind.EPOCH:
            turn.record.epochs = int(event.value)
        case Kind.DEVICE:
            turn.session.uses_gpu = event.value > 0
        case _:
            turn.record.accuracy = event.value
    return state


def first_step(turn: Turn) -> Planning | Holding | Running:
    """The training counts its steps: profile it, unless the plan holds the session."""
    turn.leave_trial()
    _note_steps(turn)
    if not turn.is_held:
        return profiling.begin(turn)
    turn.say(Reason.HOLD, "the first steps were seen; held by the plan at the safe start mode")
    return Running() if turn.is_running else Holding()


def _note_steps(turn: Turn) -> None:
    turn.record.lacks_steps = False
    turn.condition(climbing_without_steps.STEPS, True, "StepsSeen", "the training counts its steps")


def _count(turn: Turn, message: StepsSeen) -> bool:
    """Count steps; say whether they are the first."""
    session = turn.session
    turn.record.steps = min(turn.record.steps + message.count, MAX_NUMBER)
    if message.duration_s is not None:
        session.step_s = session.latest_step_s = message.duration_s / message.count
        turn.drift.step(message.at_s, session.step_s)
        session.plausibility.step(message.at_s, session.step_s)
    first, session.step_seen = not session.step_seen, True
    return first


# Time


async def on_tick_while_waiting(
    turn: Turn, state: WaitingForSteps, event: Tick
) -> WaitingForSteps | Planning | Running | Blind:
    """Give up waiting for steps when they are overdue."""
    after = await _every_second(turn, state)
    return climbing_without_steps.overdue(turn) or after if after is state else after


async def on_tick_while_holding(turn: Turn, state: Holding, event: Tick) -> Holding | Planning | Running | Blind:
    """Watch the sensor and the limits."""
    return await _every_second(turn, state)


async def on_tick_while_planning(turn: Turn, state: Planning, event: Tick) -> Planning | Running | Blind:
    """Ask again after a failure."""
    after = await _every_second(turn, state)
    due = state.retry_at_s is not None and event.at >= state.retry_at_s
    return turn.ask(state.question) if after is state and due else after


async def on_tick_while_running(turn: Turn, state: Running, event: Tick) -> Running | Planning | Revisiting | Blind:
    """Begin what is due."""
    after = await _every_second(turn, state)
    return await running.look_after(turn, state) if after is state else after


async def on_tick_in_trial(turn: Turn, state: Trying, event: Tick) -> Trying | Planning | Running | Blind:
    """Look at the board within a window."""
    after = await _every_second(turn, state)
    if after is state:
        await trials.give(turn, state.visit, state.visit.tick())
    return after


async def _every_second(turn: Turn, state: S) -> S | Planning | Running | Blind:
    if sensor_loss.is_lost(turn):
        return await sensor_loss.lose(turn)
    return await budget_changes.follow(turn, state)


def on_report_due(turn: Turn, state: S, event: ReportDue) -> S:
    """Publish figures, save counters now and then, and let gate and fan follow."""
    facts, fan_at_maximum = turn.facts, turn.record.phase is Phase.PROFILING
    if turn.record.gate_open and facts.may_admit != facts.gate_is_open:
        turn.do(OpenGate() if facts.may_admit else CloseGate())
    if facts.in_force.fan_max_while_profiling and fan_at_maximum != facts.fan_maximum:
        turn.do(SetFan(fan_at_maximum))
    _note_failures(turn)
    _note_supply(turn)
    _note_device(turn)
    turn.publish(urgent=False)
    if turn.now_s - turn.session.saved_s >= turn.settings.save_s:
        turn.save()
    return state


def _note_supply(turn: Turn) -> None:
    """Say in the session's conditions whether an alarm of the supply holds the power down."""
    alarm, condition = turn.facts.supply_alarm, find(turn.record.conditions, SUPPLY)
    if alarm:
        turn.condition(SUPPLY, False, "SupplyAlarm", f"{alarm}, until ten minutes have passed without another alarm")
    elif condition is not None and condition.status is ConditionStatus.FALSE:
        turn.condition(SUPPLY, True, "SupplyHolds", "no alarm of the supply for ten minutes")


def _note_device(turn: Turn) -> None:
    """Say in the session's conditions whether the training uses the GPU."""
    uses_gpu, condition = turn.session.uses_gpu, find(turn.record.conditions, GPU)
    if uses_gpu is None:
        return
    if condition is not None:
        age_s = (turn.facts.now - datetime.fromisoformat(condition.last_transition_time)).total_seconds()
        if (condition.status is ConditionStatus.TRUE) is uses_gpu or 0 <= age_s < GPU_NEWS_S:
            return
    if uses_gpu:
        turn.condition(GPU, True, "OnGPU", "the training computes on the GPU")
    else:
        words = "the training computes on the CPU: the parameters of its optimizer are on 'cpu'"
        turn.condition(GPU, False, "OnCPU", words)


def _note_failures(turn: Turn) -> None:
    """Say in the session's conditions whether a part of the agent fails."""
    failure, condition = turn.facts.loop_failure, find(turn.record.conditions, LOOP)
    if failure:
        words = f"{failure}; the other parts continue, and the mode is held and guarded"
        turn.condition(LOOP, False, FAILING, words)
    elif condition is not None and condition.status is ConditionStatus.FALSE:
        turn.condition(LOOP, True, RECOVERED, "no part of the loop has failed for a minute")
