"""`transfer`, the default: physics with the reference as prior, modes chosen actively, safe under a limit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from powertrain.choosing import Choice, choose
from powertrain.objectives import Limits, Objective
from powertrain.physics.design import accuracy_next, initial_design
from powertrain.physics.reference import PhysicsReference
from powertrain.prediction import Prediction
from powertrain.profiling.acquisition import COST_EXPONENT, constrained_gain, front_budgets
from powertrain.profiling.belief import Belief
from powertrain.profiling.history import History
from powertrain.profiling.problem import Aim, Problem
from powertrain.space import BoolArray, FloatArray, IntArray
from powertrain.strategies.base import HasPhysics, Proposal

INITIAL_MODES = 5
# Under an exploration limit: when a mode that is not yet safe promises this many times more than the best safe one, learn about it.
EXPANSION_RATIO = 1.5
EXPANSION_TARGETS, EXPANSION_CANDIDATES = 24, 240


class Transfer:
    """Plans by expected gain under the limits, predicts with physics, and selects measured modes."""

    name: ClassVar[str] = "transfer"
    default_max_modes: ClassVar[int | None] = 20
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
        """Return the model's view of every mode; None before the first sample."""
        return self.belief.prediction(history) if len(history.modes) else None

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the best measured mode that keeps the limits; an unmeasured one only where no measured mode does."""
        problem = self._problem
        known, measured = self.belief.known(history), self.belief.measured(history)
        choice = choose(known, problem.objective, limits, problem.work, problem.risk, eligible=measured)
        if choice.row is not None:
            return choice
        unmeasured = choose(known, problem.objective, limits, problem.work, problem.risk)
        return unmeasured if unmeasured.row is not None else choice

    def check(self, history: History, limits: Limits, allowed: BoolArray) -> Proposal | None:
        """Return the mode most worth a short in-flight check under these limits, None if none is worth it."""
        gain = np.where(allowed, self._gain(history, limits), 0.0)
        row = int(np.argmax(gain))
        if gain[row] <= self._problem.min_gain / 10:
            return None
        return Proposal(row, f"in-flight check: {gain[row]:.2%} faster is expected of it", float(gain[row]))

    def _early(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the next mode of the fixed first handful, where there is one that is allowed."""
        if len(history.modes) == 0 and self._problem.explore_limit_w is not None:
            return Proposal(self.belief.start(allowed), "least power by the reference: the safe start")
        if self._problem.explore_limit_w is not None or len(history.reports) >= INITIAL_MODES:
            return None if len(history.modes) else Proposal(self.belief.start(allowed), "least power of what is left")
        if self._initial is None:
            self._initial = initial_design(self._physics, self._problem.modes, INITIAL_MODES, seed=self._problem.seed)
        for position, row in enumerate(self._initial):
            if allowed[row]:
                reason = "low-power anchor" if position == 0 else f"mode {position + 1} of the first handful, spread over the space"
                return Proposal(int(row), reason)
        return None

    def _by_gain(self, history: History, allowed: BoolArray, cost: FloatArray) -> Proposal:
        gain = self._front_gain(history) if self._problem.aim is Aim.FRONT else self._gain(history, self._problem.limits)
        value = gain / cost**COST_EXPONENT
        best = int(np.argmax(np.where(allowed, value, -np.inf)))
        beyond = np.where(allowed | history.visited, 0.0, value)
        if self._problem.explore_limit_w is not None and beyond.max() > EXPANSION_RATIO * value[best]:
            return self._expand(history, allowed, beyond, cost)
        return Proposal(best, f"expected gain {gain[best]:.2%} under the limits", float(gain[best]))

    def _gain(self, history: History, limits: Limits) -> FloatArray:
        known, measured = self.belief.known(history), self.belief.measured(history)
        problem = self._problem
        return constrained_gain(self.belief.prediction(history), known, measured, problem.objective, limits, problem.work, problem.risk)

    def _front_gain(self, history: History) -> FloatArray:
        """Return the expected gain summed over the budgets that bind."""
        known, measured = self.belief.known(history), self.belief.measured(history)
        prediction, problem = self.belief.prediction(history), self._problem
        budgets = front_budgets(prediction)
        gains = [
            constrained_gain(prediction, known, measured, Objective.MIN_TIME, Limits(power_w=float(b)), problem.work, problem.risk)
            for b in budgets
        ]
        return np.mean(gains, axis=0)

    def _expand(self, history: History, allowed: BoolArray, beyond: FloatArray, cost: FloatArray) -> Proposal:
        """Return the safe mode that tells most about the power of the valuable modes that are not safe yet."""
        modes = self._problem.modes
        targets = np.argsort(beyond)[::-1][:EXPANSION_TARGETS]
        targets = targets[beyond[targets] > 0]
        rng = np.random.default_rng([self._problem.seed, len(history)])
        safe = np.flatnonzero(allowed)
        candidates = safe if safe.size <= EXPANSION_CANDIDATES else np.sort(rng.permutation(safe)[:EXPANSION_CANDIDATES])
        predictor = self.belief.predictor(history)
        _, power_after = predictor.lookahead(modes[targets], modes[candidates])
        removed = predictor.posterior(modes[targets]).log_power_std[:, None] - np.sqrt(power_after)
        value = (beyond[targets] @ removed) / cost[candidates] ** COST_EXPONENT
        best = int(candidates[np.argmax(value)])
        target = self._problem.space[int(targets[0])]
        return Proposal(best, f"tells most about the power of {target.human}, promising but not safe yet", None)
