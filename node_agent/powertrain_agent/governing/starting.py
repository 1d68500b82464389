"""The start: the safe mode first, verified, then the gate. A new session and one that an earlier run left."""

from __future__ import annotations

from powertrain.api.v1alpha1 import PROTOCOL, Phase, PriorMatch, Reason
from powertrain.profiling.history import ModeReport
from powertrain_agent.governing import choosing, monitoring, onward
from powertrain_agent.governing.candidates import chosen_or_best
from powertrain_agent.governing.commands import OpenGate
from powertrain_agent.governing.events import Opened, Resumed, Tick
from powertrain_agent.governing.states import (
    Blind,
    Holding,
    New,
    Planning,
    Refused,
    Running,
    Starting,
    WaitingForSteps,
)
from powertrain_agent.governing.turn import Turn
from powertrain_agent.planning.safe_start import reference_w, safe_start

Started = Starting | WaitingForSteps | Holding | Planning | Running | Blind


async def on_opened(turn: Turn, state: New, event: Opened) -> Started | Refused:
    """Begin a new session, with what a profile knows."""
    record, spec = turn.record, turn.spec
    if abs(spec.protocol - PROTOCOL) > 1:
        record.phase, record.restored = Phase.REFUSED, True
        record.message = f"VersionSkew: the envelope speaks protocol {spec.protocol}, this agent {PROTOCOL} ± 1"
        turn.publish(urgent=True)
        return Refused()
    turn.save()  # before the first mode is set: what is found on the disk later belongs to this session
    if spec.prior is not None:
        noise = None if spec.prior.match is PriorMatch.EXACT else turn.settings.warm_noise
        samples = spec.prior.samples
        record.reports = [ModeReport(sample.mode, None, sample, noise) for sample in samples.samples()]
        record.extra = measured = len(record.reports)
        if spec.prior.match is PriorMatch.EXACT:
            turn.session.learn(record.reports)
        record.reports += [ModeReport.of_early(early, noise or 0.0) for early in samples.early.samples()]
        turn.session.set_apart()
        words = f"{measured} modes are known from a profile ({spec.prior.match.value})"
        turn.say(Reason.START, words)
    return await start(turn)


async def on_resumed(turn: Turn, state: New, event: Resumed) -> Started:
    """Take a session up again; the board holds its mode already. What was lost or lowered stays so for now."""
    record, session = turn.record, turn.session
    booted_anew = record.boot_id != session.board.boot_id
    if booted_anew or record.start is None or not record.gate_open:
        record.gate_open = record.verified = False
        record.phase = Phase.STARTING
        why = "the board was rebooted" if booted_anew and record.start else "the start was not finished"
        turn.say(Reason.START, f"{why}; {record.measured} measured modes are kept")
        return await start(turn)
    session.gate_opened_s, session.step_seen = turn.now_s, record.steps > 0
    reason = record.reason
    turn.say(Reason.HOLD, f"the agent is back; {record.measured} measured modes are kept")
    if record.is_blind:
        await turn.apply_unless_set(record.start)
        return Blind()
    if turn.is_running and (reason is Reason.GUARD or record.lowered_from is not None):
        return _stay_down(turn)
    if turn.is_running and record.chosen is not None:
        return await _run_again(turn, reason)
    return await onward.go_on(turn, "steps are still not seen")


async def start(turn: Turn) -> Started:
    """Set the safe mode, verify it, and open the gate."""
    record, session = turn.record, turn.session
    references = turn.settings.references
    mode = safe_start(session.board.space, session.board.device, record.reports, references)
    record.start, record.boot_id = mode, session.board.boot_id
    session.plausibility.response.floor = (mode, reference_w(mode, session.board.device, references))
    applied = await turn.apply(mode)
    if not applied.ok:
        turn.say(Reason.START, f"the safe mode could not be set; the agent retries: {applied.reason}")
        return Starting(turn.now_s + turn.settings.retry_s)
    record.gate_open, session.gate_opened_s = True, turn.now_s
    turn.do(OpenGate())
    turn.say(Reason.START, f"safe mode {mode.human} verified, the gate is open")
    if record.is_blind:
        return Blind()
    if session.step_seen:
        return monitoring.first_step(turn)
    return await onward.go_on(turn, "instrumentation is None")


async def on_tick(turn: Turn, state: Starting, event: Tick) -> Started:
    """Try again."""
    return await start(turn) if event.at >= state.retry_at_s else state


def _stay_down(turn: Turn) -> Running:
    """Keep what the guard has set until it was quiet for as long as ever."""
    turn.session.running_since_s = turn.now_s
    turn.guard.keep_lowered(turn.now_s)
    turn.drift.expect(turn.record.chosen if turn.session.step_seen else None)
    turn.say(Reason.GUARD, "the agent is back: the guard had lowered the mode, which is kept")
    return Running()


async def _run_again(turn: Turn, reason: Reason) -> Started:
    chosen = turn.record.chosen
    assert chosen is not None
    point = chosen_or_best(turn)
    if point is None and turn.record.mode != chosen.mode:
        return await onward.go_on(turn, "no measured mode keeps the limit")  # another limit has made it be left
    words = "the chosen mode again" if point is chosen else "the limit is lower than when it left"
    return await choosing.run(turn, point or chosen, reason, f"the agent is back: {words}")
