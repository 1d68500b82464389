"""`linear`, `tree`, `forest`, `mlp`: the predictors that the first paper tried and rejected, on random modes.

They know no reference: that is what they are compared for. Each is scikit-learn's estimator, one for time and one for
power, on standardised cores and clocks.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from powertrain.choosing import Choice
from powertrain.objectives import Limits
from powertrain.prediction import Prediction
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.space import BoolArray, FloatArray
from powertrain.strategies.base import Proposal, StrategyUnavailableError, random_order
from powertrain.strategies.by_prediction import next_random, select_predicted

INSTALL = "pip install '.[nn]' in a checkout"
FEWEST_MODES = 3  # two to learn from while one is held out
FOLDS = 5
TREES = 100
# A line through step times may fall below zero: predictions stay within this factor of what was measured.
REACH = 10.0


class Linear:
    """Ordinary least squares."""

    name: ClassVar[str] = "linear"
    default_max_modes: ClassVar[int | None] = 50
    summary: ClassVar[str] = "linear regression on n random modes; rejected by the papers (times are not linear)"

    def __init__(self, problem: Problem, reference: object | None = None) -> None:
        if find_spec("sklearn") is None:
            raise StrategyUnavailableError(f"strategy {self.name!r} needs scikit-learn: {INSTALL}")
        self._problem = problem
        self._rank = random_order(problem)
        self._fitted: tuple[bytes, Prediction] | None = None

    def propose(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the next mode of the seed's random order."""
        return next_random(self._rank, allowed)

    def predict(self, history: History) -> Prediction | None:
        """Return the estimators' prediction of every mode, None before there is enough to learn from."""
        if len(history.modes) < FEWEST_MODES:
            return None
        key = b"".join(part.tobytes() for part in (history.modes, history.step_s, history.power_w))
        if self._fitted is None or self._fitted[0] != key:
            time_s, time_std = self._cross_validated(history.modes, history.step_s)
            power_w, power_std = self._cross_validated(history.modes, history.power_w)
            self._fitted = (key, Prediction(time_s, time_std, power_w, power_std))
        return self._fitted[1]

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the papers' choice at a risk of one half or more, else one that counts with the estimators' error."""
        return select_predicted(self._problem, history, self.predict(history), limits)

    def _cross_validated(self, modes: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the value of every mode and its standard deviation, from the error on samples that were held out."""
        mean = _bounded(self._fit(modes, values).predict(self._problem.modes), values)
        order = np.random.default_rng(self._problem.seed).permutation(len(values))
        relative = np.empty(len(values))
        for held_out in np.array_split(order, min(FOLDS, len(values))):
            rest = np.setdiff1d(order, held_out)
            guess = _bounded(self._fit(modes[rest], values[rest]).predict(modes[held_out]), values[rest])
            relative[held_out] = guess / values[held_out] - 1.0
        return mean, mean * float(np.sqrt(np.mean(relative**2)))

    def _fit(self, modes: FloatArray, values: FloatArray) -> Any:
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        regressor = make_pipeline(StandardScaler(), self._estimator())
        return TransformedTargetRegressor(regressor, transformer=StandardScaler()).fit(modes, values)

    def _estimator(self) -> Any:
        from sklearn.linear_model import LinearRegression

        return LinearRegression()


class Tree(Linear):
    """One decision tree."""

    name: ClassVar[str] = "tree"
    summary: ClassVar[str] = "a decision tree on n random modes; rejected by the papers (overfits)"

    def _estimator(self) -> Any:
        from sklearn.tree import DecisionTreeRegressor

        return DecisionTreeRegressor(random_state=self._problem.seed)


class Forest(Linear):
    """A hundred trees on resampled modes."""

    name: ClassVar[str] = "forest"
    summary: ClassVar[str] = "a random forest on n random modes; rejected by the papers (overfits)"

    def _estimator(self) -> Any:
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(TREES, random_state=self._problem.seed, n_jobs=1)


class Mlp(Linear):
    """A small perceptron, fitted by a second-order method."""

    name: ClassVar[str] = "mlp"
    summary: ClassVar[str] = "a small perceptron on n random modes; rejected by the papers (can't be transferred)"

    def _estimator(self) -> Any:
        from sklearn.neural_network import MLPRegressor

        return MLPRegressor(
            hidden_layer_sizes=(64, 32), solver="lbfgs", alpha=0.01, max_iter=400, random_state=self._problem.seed
        )

    def _fit(self, modes: FloatArray, values: FloatArray) -> Any:
        import warnings

        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings():
            # The last iterations change nothing that a choice depends on.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return super()._fit(modes, values)


def _bounded(predicted: FloatArray, measured: FloatArray) -> FloatArray:
    bounded: FloatArray = np.clip(predicted, measured.min() / REACH, measured.max() * REACH)
    return bounded
