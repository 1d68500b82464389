"""The guard's way down: a broken limit is answered with a mode of less power, before anything else is thought about."""

from __future__ import annotations

from powertrain.api.v1alpha1 import Reason
from powertrain.profiling.history import ModeReport
from powertrain.samples import Sample
from powertrain_agent.governing.candidates import lower_mode, point_of, safe_mode
from powertrain_agent.governing.commands import GuardLowered
from powertrain_agent.governing.drift import FLOOR_SHARE
from powertrain_agent.governing.measurement_window import Verdict, WindowOutcome
from powertrain_agent.governing.turn import REACHABLE, Turn
from powertrain_agent.planning.front import Point
from powertrain_agent.telemetry import Reading

GUARD_NOISE = 0.005  # of a mean over the guard window


async def lower(turn: Turn, reading: Reading) -> None:
    """The budget is broken: go to the fastest point that is expected to keep it, by what is observed now."""
    record, guard = turn.record, turn.guard
    limit_w = min((w for w in (turn.limits.guarded_w, guard.hard_limit_w) if w is not None), default=reading.power_w)
    if turn.session.unlowered == ("lowest", record.mode, limit_w):
        return  # every reading asks again
    current = point_of(turn, record.mode)
    if guard.again and current is not None and guard.observed_w <= (1.0 + FLOOR_SHARE) * current.power_w:
        _give_up(turn, current, reading, limit_w)
    mode, over = lower_mode(turn, reading, limit_w), guard.pressing
    mean = f"{over.truth.mean_w:.2f} W over {over.window_s:g} s, {reading.power_w:.2f} W now, limit {limit_w:g} W"
    if mode is None or mode == record.mode:
        if not _is_news(turn, "lowest", record.mode, limit_w):
            return
        closest = f"the closest mode is {record.mode}, {guard.mean_w:.1f} W" if record.mode else "no mode is set"
        reason = out_of_reach(turn, f"{mean}: {closest}")
        turn.say(Reason.GUARD, f"{reason}: {mean}, and there is no lower mode")
        return
    turn.do(GuardLowered())
    applied = await turn.apply(mode)
    if not applied.ok and not _is_news(turn, "failed", record.mode, limit_w):
        return
    if turn.is_running and applied.ok:
        _expect_less(turn)
    went = f"down to {mode.human}" if applied.ok else f"{mode.human} could not be set: {applied.reason}"
    turn.say(Reason.GUARD, f"{mean}: {went}", mode=str(mode))


def stay_down(turn: Turn, because: str) -> None:
    """Keep the mode of less power that was gone back to, as if the guard had set it."""
    _expect_less(turn)
    turn.guard.keep_lowered(turn.now_s)
    turn.say(Reason.GUARD, because)


async def go_back(turn: Turn, outcome: WindowOutcome) -> None:
    """Go to a mode that is known to keep the limit, after a visit that measured nothing.

    From one that broke a limit, with what it showed.
    """
    guard, sample = turn.guard, outcome.sample
    if outcome.verdict is Verdict.UNSAFE:
        guard.broke(turn.now_s)
    is_broken = guard.is_broken(turn.now_s)
    if not is_broken:
        mode = safe_mode(turn)
    elif sample is not None:
        mode = safe_mode(turn, sample.mode, sample.power_w)
    else:
        mode = safe_mode(turn, turn.record.mode, guard.observed_w)
    if is_broken and mode != turn.record.mode:
        turn.do(GuardLowered())
    await turn.apply_unless_set(mode)


def out_of_reach(turn: Turn, words: str) -> str:
    """Set the condition of a budget that no mode keeps, and return its reason: for good, or for a while.

    What is lower than the job's own limit (a schedule, what the site delivers) will be raised again.
    """
    budget, hard_w = turn.session.budget, turn.limits.hard_w
    base_w, limit_w = turn.spec.limits.power_watts, budget.power_w
    lowered = limit_w is not None and (base_w is None or limit_w < base_w) and (hard_w is None or limit_w < hard_w)
    reason = "WaitingForBudget" if lowered else "BudgetUnreachable"
    if lowered:
        words += f"; it is held until the limit is above {limit_w:g} W ({budget.source})"
    turn.condition(REACHABLE, False, reason, words)
    return reason


def _expect_less(turn: Turn) -> None:
    record = turn.record
    record.lowered_from = record.lowered_from or record.chosen
    record.chosen = point_of(turn, record.mode)  # what is expected from now on, and what a restart goes back to
    turn.drift.expect(record.chosen)


def _is_news(turn: Turn, *what: object) -> bool:
    before, turn.session.unlowered = turn.session.unlowered, what
    return before != what


def _give_up(turn: Turn, point: Point, reading: Reading, limit_w: float) -> None:
    """This mode takes what was measured, and that is too close: it broke the limit again after the quiet time.

    Power far above what was measured is a passing load or a drift, which cost no mode.
    """
    guard, record = turn.guard, turn.record
    power_w = guard.observed_w if guard.observed_w > limit_w else reading.power_w
    peak_w, batch_size = max(power_w, reading.power_w), turn.spec.workload.batch_size
    sample = Sample(point.mode, point.step_s, power_w, batch_size, power_peak_w=peak_w, unsafe=True)
    record.reports.append(ModeReport(point.mode, None, sample, GUARD_NOISE))
    record.fresh.add(point.mode)
    turn.say(Reason.GUARD, f"{point.mode.human} broke the limit twice and was given up", mode=str(point.mode))
