"""Second looks: modes worth a visit under a mean limit although the model alone would not ask for them.

The model is physics plus what the samples add nearby. Two things escape it, and both cost whole sessions on measured
tables: a level of the memory clock that was never visited, where only physics speaks; and a sample that physics can't
explain, which is left out as if its clocks had not been applied. A ledger makes a visit cheap, so both get one.
"""

from __future__ import annotations

import numpy as np

from powertrain.exploring.ledger import cap_w
from powertrain.exploring.rules import MeanRules
from powertrain.prediction import Prediction
from powertrain.profiling.belief import Belief
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.profiling.safety import rest_power_w
from powertrain.space import BoolArray, FloatArray, IntArray

MEMORY = 3  # the place of the memory clock in a mode
# Looks begin once the model has seen so many modes, and concern so many of the highest memory clocks.
FEWEST_MODES, HIGHEST_LEVELS = 4, 2
# A level is worth a look if its fastest mode may beat the best one, by so many standard deviations of its time.
OPTIMISM = 2.0
# Neighbours of an unexplained sample: no knob lower, so many levels up in all. Visits around one sample at most.
NEAR, MOST_LOOKS = 2, 2
# A neighbour must promise this much less time than the best mode.
LEAST_GAIN = 0.01


def unseen_memory_clock(problem: Problem, belief: Belief, history: History, allowed: BoolArray) -> int | None:
    """Return the most promising allowed mode at a high memory clock that no visit had yet; None if there is none."""
    rules, limit_w = problem.ledger_rules, problem.explore_limit_w
    if rules is None or limit_w is None or len(history.modes) < FEWEST_MODES:
        return None
    posterior, clocks = belief.posterior(history), problem.modes[:, MEMORY]
    best_s = _best_s(history, rules.limit_w(limit_w) * rules.choice_share)
    visited_clocks = set(clocks[history.visited].tolist())
    for clock in np.unique(clocks)[::-1][:HIGHEST_LEVELS]:
        likely = allowed & (clocks == clock) & (posterior.power_w <= rules.limit_w(limit_w))
        if clock in visited_clocks or not likely.any():
            continue
        row = int(np.argmin(np.where(likely, posterior.time_s, np.inf)))
        if posterior.time_s[row] - OPTIMISM * posterior.time_std_s[row] < best_s:
            return row
    return None


def beside_unexplained(problem: Problem, belief: Belief, history: History) -> int | None:
    """Return the most promising mode next to a sample that the model left out as impossible; None if there is none.

    If the sample is right, its neighbours are like it: what it measured, times the ratio that the model expects.
    """
    rules, limit_w = problem.ledger_rules, problem.explore_limit_w
    if rules is None or limit_w is None or len(history.modes) < FEWEST_MODES:
        return None
    within_w, model = rules.limit_w(limit_w) * rules.choice_share, belief.prediction(history)
    outliers = belief.predictor(history).outliers_[: len(history.modes)]
    best_s, levels = _best_s(history, within_w), _levels(problem.modes)
    visitable = ~history.visited & _bearable(model, rules, rules.limit_w(limit_w), rest_power_w(history))
    candidates: list[tuple[float, int]] = []
    for sample in np.flatnonzero(outliers & (history.power_w <= within_w)):
        base = int(history.rows[sample])
        if base < 0 or history.power_w[sample] >= model.power_w[base]:
            continue
        above = levels - levels[base]
        near = (above >= 0).all(axis=1) & (above.sum(axis=1) <= NEAR) & (above.sum(axis=1) > 0)
        if int((near & history.visited).sum()) >= MOST_LOOKS:
            continue
        time_s = history.step_s[sample] * model.time_s / model.time_s[base]
        power_w = history.power_w[sample] * model.power_w / model.power_w[base]
        promising = near & visitable & (power_w <= within_w) & (time_s < (1.0 - LEAST_GAIN) * best_s)
        if promising.any():
            row = int(np.argmin(np.where(promising, time_s, np.inf)))
            candidates.append((float(time_s[row]), row))
    return min(candidates)[1] if candidates else None


def _best_s(history: History, within_w: float) -> float:
    """Return the least time that was measured within the limit."""
    step_s = history.step_s[history.power_w <= within_w]
    return float(step_s.min()) if step_s.size else float("inf")


def _bearable(model: Prediction, rules: MeanRules, limit_w: float, rest_w: float) -> BoolArray:
    """Return the modes that a short visit can't make dangerous even if the model is right."""
    bearable: BoolArray = model.power_w + rules.cap_sigmas * model.power_std_w <= cap_w(limit_w, rest_w, rules)
    return bearable


def _levels(modes: FloatArray) -> IntArray:
    """Return each mode's place on every knob's scale."""
    return np.column_stack([np.searchsorted(np.unique(modes[:, knob]), modes[:, knob]) for knob in range(4)])
