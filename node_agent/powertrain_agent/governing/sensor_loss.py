"""A lost sensor: without readings no budget can be kept, so the mode of least power is held until they are back."""

from __future__ import annotations

from powertrain.api.v1alpha1 import Phase, Reason
from powertrain_agent.governing import choosing, onward
from powertrain_agent.governing.events import Tick
from powertrain_agent.governing.session import Session
from powertrain_agent.governing.states import Blind, Holding, Planning, Running, WaitingForSteps
from powertrain_agent.governing.turn import Turn
from powertrain_agent.telemetry import Reading

SENSOR = "PowerSensor"


def doubt(session: Session, reading: Reading) -> str:
    """Take a reading; say why it can't be believed, which counts as none."""
    session.plausibility.power(reading)
    return session.plausibility.doubt


def is_lost(turn: Turn) -> bool:
    """Say whether readings are missing or wrong; an agent that has just started has had none yet."""
    session, guarded_s = turn.session, turn.facts.guarded_s
    if session.watched_since_s is None:
        session.watched_since_s = turn.now_s
    seen_s = session.watched_since_s if guarded_s is None else guarded_s
    return bool(session.plausibility.doubt) or turn.now_s - seen_s > turn.settings.sensor_lost_s


async def lose(turn: Turn) -> Blind:
    """Go to the mode of least power, and say why."""
    record, session = turn.record, turn.session
    because = session.plausibility.doubt or turn.facts.sensor_failure or "no reading of the power"
    session.was_silent = not session.plausibility.doubt
    turn.leave_trial()
    record.is_blind = True
    await turn.apply_unless_set(record.start)
    if record.phase is Phase.RUNNING:
        record.phase = Phase.HOLDING
    turn.drift.expect(None)
    turn.condition(SENSOR, False, "SensorLost", because)
    turn.say(Reason.HOLD, f"SensorLost: {because}; the mode of least power is held")
    return Blind()


async def on_tick(turn: Turn, state: Blind, event: Tick) -> Blind | Holding | Planning | Running | WaitingForSteps:
    """Go on once the power is read again; until then set the mode of least power, where it could not be set."""
    # A sensor that gave nothing is trusted at once, one that was wrong when its response can be compared.
    trusted = turn.session.was_silent or turn.session.plausibility.is_settled
    if is_lost(turn) or turn.facts.guarded_s is None or not trusted:
        await turn.apply_unless_set(turn.record.start)
        return state
    return await _find(turn)


async def _find(turn: Turn) -> Holding | Planning | Running | WaitingForSteps:
    record = turn.record
    record.is_blind = False
    turn.condition(SENSOR, True, "Readings", "the power is read again")
    turn.say(Reason.HOLD, "the power is read again")
    before = record.lowered_from
    if record.phase is not Phase.HOLDING or before is None or record.chosen is None:
        return await onward.go_on(turn, "the power is read again")
    running = await choosing.run(
        turn, record.chosen, Reason.GUARD, "the power is read again: no higher than the guard had set"
    )
    record.lowered_from = before
    turn.guard.keep_lowered(turn.now_s)
    return running
