"""`transfer`, the default: physics with the reference as prior, modes chosen actively, safe under a limit."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from powertrain.choosing import Choice, choose
from powertrain.objectives import Limits
from powertrain.physics.design import accuracy_next, initial_design
from powertrain.physics.reference import PhysicsReference
from powertrain.prediction import Prediction
from powertrain.profiling.acquisition import (
    COST_EXPONENT,
    EXPANSION_DISCOUNT,
    constrained_gain,
    expansion_gain,
    front_gain,
    log_goal,
)
from powertrain.profiling.belief import Belief
from powertrain.profiling.history import History
from powertrain.profiling.problem import Aim, Problem
from powertrain.profiling.second_looks import beside_unexplained, unseen_memory_clock
from powertrain.space import BoolArray, FloatArray, IntArray
from powertrain.strategies.base import HasPhysics, Proposal

INITIAL_MODES = 5
# An unmeasured mode must promise this much (log units) over the best measured one to be chosen in its stead.
CLEARLY_BETTER = 0.05
RISK_SHARE_UNMEASURED = 0.2
EXPANSION_TARGETS, EXPANSION_CANDIDATES = 48, 240
MEASUREMENT_NOISE = 0.005


class Transfer:
    """Plans by expected gain under the limits, predicts with physics, and selects measured modes."""

    name: ClassVar[str] = "transfer"
    default_max_modes: ClassVar[int | None] = 20
    learns_from_reference: ClassVar[bool] = True
    is_cautious: ClassVar[bool] = True
    summary: ClassVar[str] = "physics with the reference as prior, a few modes chosen actively; the default"

    def __init__(self, problem: Problem, reference: HasPhysics | None = None) -> None:
        self._problem = problem
        self._physics: PhysicsReference | None = None if reference is None else reference.physics
        self.belief = Belief(problem, self._physics)
        self._initial: IntArray | None = None

    def propose(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the mode that teaches or gains most per cost."""
        if not allowed.any():
            return None
        early = self._early(history, allowed)
        if early is not None:
            return early
        cost = np.asarray(self._problem.cost.seconds(self.belief.prediction(history).time_s))
        if self._problem.aim is Aim.ACCURACY:
            row = accuracy_next(self.belief.predictor(history), self._problem.modes, ~allowed, cost)
            return Proposal(row, "lowers the expected error over all modes most for its cost")
        return self._by_gain(history, allowed, cost)

    def predict(self, history: History) -> Prediction | None:
        """Return the model's view of every mode; None before any sample."""
        return self.belief.prediction(history) if self.belief.informed(history) else None

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the best measured mode that keeps the limits.

        An unmeasured mode is taken only where no measured mode keeps them or where it is clearly better than every
        measured one, and only with a share of the risk: the best of thousands is often one that was underestimated.
        """
        problem = self._problem
        posterior, measured = self.belief.posterior(history), self.belief.measured_rows(history)
        peaks, cautious = history.peak_factors, problem.risk * RISK_SHARE_UNMEASURED
        if problem.ledger_rules is not None:
            # Nothing that was never held runs: the ledger can measure whatever is worth it.
            own_limits = self._with_distance(limits)
            eligible = measured & ~history.failed
            rules = problem.ledger_rules
            risk = problem.risk if rules.choice_risk is None else rules.choice_risk
            return choose(posterior, problem.objective, own_limits, problem.work, risk, peaks, eligible=eligible)
        measured_choice = choose(
            posterior, problem.objective, limits, problem.work, problem.risk, peaks, eligible=measured
        )
        likely = choose(posterior, problem.objective, limits, problem.work, cautious, peaks)
        if likely.row is None or likely.row == measured_choice.row:
            return measured_choice
        goal, _ = log_goal(posterior, problem.objective)
        if measured_choice.row is not None and goal[measured_choice.row] - goal[likely.row] < CLEARLY_BETTER:
            return measured_choice
        return replace(likely, reason=f"{likely.reason}; not measured yet, predicted to keep the limits")

    def check(self, history: History, limits: Limits, allowed: BoolArray) -> Proposal | None:
        """Return the mode most worth a short in-flight check under these limits, None if none is worth it."""
        gain = np.where(allowed, self._gain(history, limits), 0.0)
        row = int(np.argmax(gain))
        if gain[row] <= self._problem.min_gain / 10:
            return None
        return Proposal(row, f"in-flight check: {gain[row]:.2%} faster is expected of it", float(gain[row]))

    def _early(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the next mode of the fixed first handful, where there is one that is allowed.

        Samples of other batch sizes replace it.
        """
        if self._problem.elsewhere:
            return None
        if len(history.modes) == 0 and self._problem.explore_limit_w is not None:
            return Proposal(self.belief.start(allowed), "least power by the reference: the safe start")
        if self._problem.explore_limit_w is not None or len(history.reports) >= INITIAL_MODES:
            return None if len(history.modes) else Proposal(self.belief.start(allowed), "least power of what is left")
        if self._initial is None:
            self._initial = initial_design(self._physics, self._problem.modes, INITIAL_MODES, seed=self._problem.seed)
        for position, row in enumerate(self._initial):
            if allowed[row]:
                reason = (
                    "low-power anchor"
                    if position == 0
                    else f"mode {position + 1} of the first handful, spread over the space"
                )
                return Proposal(int(row), reason)
        return None

    def _by_gain(self, history: History, allowed: BoolArray, cost: FloatArray) -> Proposal:
        front = self._problem.aim is Aim.FRONT
        gain = self._front_gain(history) if front else self._gain(history, self._with_distance(self._problem.limits))
        if self._problem.explore_limit_w is not None:
            look = self._second_look(history, allowed)
            if look is not None:
                return look
            return self._by_gain_and_expansion(history, allowed, gain, cost)
        best = int(np.argmax(np.where(allowed, gain / cost**COST_EXPONENT, -np.inf)))
        return Proposal(best, f"expected gain {gain[best]:.2%} under the limits", float(gain[best]))

    def _second_look(self, history: History, allowed: BoolArray) -> Proposal | None:
        row = unseen_memory_clock(self._problem, self.belief, history, allowed)
        if row is not None:
            return Proposal(row, "no mode with this memory clock was visited yet")
        row = beside_unexplained(self._problem, self.belief, history)
        if row is not None:
            return Proposal(row, "next to a mode that takes less power than the model can explain")
        return None

    def _with_distance(self, limits: Limits) -> Limits:
        """Return the limits with the distance to a mean limit that a chosen mode has to keep."""
        rules = self._problem.ledger_rules
        if rules is None or limits.power_w is None:
            return limits
        return replace(limits, power_w=rules.limit_w(limits.power_w) * rules.choice_share)

    def _gain(self, history: History, limits: Limits) -> FloatArray:
        posterior, measured = self.belief.posterior(history), self.belief.measured_rows(history)
        problem = self._problem
        return constrained_gain(
            self.belief.prediction(history),
            posterior,
            measured,
            problem.objective,
            limits,
            problem.work,
            problem.risk,
            history.peak_factors,
        )

    def _front_gain(self, history: History) -> FloatArray:
        """Return the expected gain over the whole front."""
        posterior, measured = self.belief.posterior(history), self.belief.measured_rows(history)
        return front_gain(self.belief.prediction(history), posterior, measured, self._problem.work, self._problem.risk)

    def _by_gain_and_expansion(
        self, history: History, allowed: BoolArray, gain: FloatArray, cost: FloatArray
    ) -> Proposal:
        """Return the safe mode whose own gain, plus the gain of what its measurement is expected to make safe, is
        largest for its cost.
        """
        targets = np.flatnonzero(~allowed & ~history.visited)
        targets = targets[np.argsort(gain[targets])[::-1][:EXPANSION_TARGETS]]
        rng = np.random.default_rng([self._problem.seed, len(history)])
        safe = np.flatnonzero(allowed)
        leading = safe[np.argsort(gain[safe])[::-1][: EXPANSION_CANDIDATES // 4]]
        candidates = np.union1d(leading, rng.permutation(safe)[:EXPANSION_CANDIDATES])
        expansion = self._expansion_gain(history, targets, candidates, gain)
        value = (gain[candidates] + EXPANSION_DISCOUNT * expansion) / cost[candidates] ** COST_EXPONENT
        best = int(np.argmax(value))
        row = int(candidates[best])
        if expansion[best] * EXPANSION_DISCOUNT > gain[row]:
            reason = f"may show that faster modes are safe ({expansion[best]:.1%} to gain)"
        else:
            reason = f"expected gain {gain[row]:.2%} under the limits"
        return Proposal(row, reason, float(gain[row] + expansion[best]))

    def _expansion_gain(
        self, history: History, targets: IntArray, candidates: IntArray, gain: FloatArray
    ) -> FloatArray:
        problem, rules = self._problem, self._problem.ledger_rules
        limit_w = problem.explore_limit_w
        assert limit_w is not None
        return expansion_gain(
            self.belief.predictor(history),
            problem.modes[candidates],
            problem.modes[targets],
            gain[targets],
            limit_w if rules is None else rules.limit_w(limit_w),
            problem.explore_risk if rules is None else rules.risk,
            max(problem.noise, MEASUREMENT_NOISE),
        )
