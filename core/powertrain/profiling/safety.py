"""Safety: which modes may be tried without breaking the exploration limit or what the board accepts."""

from __future__ import annotations

import numpy as np

from powertrain.exploring.ledger import cap_w
from powertrain.exploring.rules import MeanRules
from powertrain.modes import PowerMode
from powertrain.prediction import Prediction
from powertrain.profiling.belief import Belief
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.space import BoolArray

# Degrees of freedom that the prior's widths bring along, before any sample.
OWN_DEGREES = 10


def safe_rows(problem: Problem, belief: Belief, history: History) -> BoolArray:
    """Return the modes whose power is within the exploration limit with probability 1 − explore_risk.

    Before the first sample only the mode of least power is safe, and so it is under a ledger before the first sample of
    this batch size: nobody knows yet what a rest takes. A mode that was measured within the limit stays safe.
    """
    everything = np.ones(len(problem.space), dtype=np.bool_)
    if problem.explore_limit_w is None:
        return everything
    rules = problem.ledger_rules
    has_no_rest = rules is not None and not history.power_w.size
    if not belief.informed(history) or has_no_rest:
        start = belief.start(~history.visited if not history.visited.all() else everything)
        only_start: BoolArray = np.arange(len(problem.space)) == start
        return only_start
    from scipy.special import stdtr

    posterior = belief.posterior(history)
    limit_w = problem.explore_limit_w if rules is None else rules.limit_w(problem.explore_limit_w)
    room = limit_w - posterior.power_w
    # Student's t: after a few samples the standard deviation is itself a guess, and the tails are what burns a fuse.
    breaks = stdtr(OWN_DEGREES + len(history.modes), -room / np.maximum(posterior.power_std_w, 1e-9))
    if rules is None:
        safe: BoolArray = breaks <= problem.explore_risk
        return safe
    worth_a_visit: BoolArray = breaks <= rules.risk
    return worth_a_visit & visitable(limit_w, rules, posterior, rest_power_w(history))


def rest_power_w(history: History) -> float:
    """Return the least power that was measured: what a ledger can go back to."""
    return float(history.power_w.min())


def visitable(limit_w: float, rules: MeanRules, posterior: Prediction, rest_w: float) -> BoolArray:
    """Return the modes that a short visit from rest can't make dangerous, or that hardly exceed the limit at all."""
    cap = cap_w(limit_w, rest_w, rules)
    below_cap = posterior.power_w + rules.cap_sigmas * posterior.power_std_w <= cap
    below_limit = posterior.power_w + rules.limit_sigmas * posterior.power_std_w <= limit_w
    both: BoolArray = below_cap | below_limit
    return both


def refused_upward(problem: Problem, history: History, mode: PowerMode) -> str | None:
    """Say why a board that only lowers its CPU and GPU clocks can't take this mode now; None if it can."""
    if not problem.descending_only or not history.reports:
        return None
    now = history.reports[-1].mode
    raised_knobs = [
        f"{name} from {getattr(now, knob)} to {getattr(mode, knob)}"
        for name, knob in (("the CPU clock", "cpu_khz"), ("the GPU clock", "gpu_hz"))
        if getattr(mode, knob) > getattr(now, knob)
    ]
    if not raised_knobs:
        return None
    return f"this board accepts lower clocks only until it is rebooted; {mode} would raise {' and '.join(raised_knobs)}"


def reachable_rows(problem: Problem, history: History) -> BoolArray:
    """Return the modes that the board accepts from where it is."""
    if not problem.descending_only or not history.reports:
        return np.ones(len(problem.space), dtype=np.bool_)
    now = history.reports[-1].mode
    lower: BoolArray = (problem.modes[:, 1] <= now.cpu_khz) & (problem.modes[:, 2] <= now.gpu_hz)
    return lower
