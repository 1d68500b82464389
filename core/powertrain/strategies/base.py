"""What a strategy is: a planner, a predictor and a selector behind one small interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np

from powertrain.choosing import Choice, choose
from powertrain.objectives import Limits
from powertrain.prediction import Prediction
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.space import BoolArray, FloatArray

if TYPE_CHECKING:
    from powertrain.physics.reference import PhysicsReference
    from powertrain.profiling.belief import Belief


@dataclass(frozen=True, slots=True)
class Proposal:
    """A row of the space to measure next, why in one line, and the relative gain expected of it (None: not
    estimated).
    """

    row: int
    reason: str
    gain: float | None = None


class HasPhysics(Protocol):
    """What `transfer` needs of a reference model."""

    @property
    def physics(self) -> PhysicsReference:
        """Return the fitted physics of the reference workload."""
        ...


class StrategyUnavailableError(RuntimeError):
    """A strategy that can't run here; the message says what to install or give."""


class Strategy(Protocol):
    """Plans, predicts and selects for one problem. Everything it decides follows from the problem and the history."""

    name: ClassVar[str]
    default_max_modes: ClassVar[int | None]  # None: every mode
    summary: ClassVar[str]
    needs_network: ClassVar[bool] = False  # of its reference
    learns_from_reference: ClassVar[bool] = False
    # Minds the risk of its problem and the limit of each trial; the papers' strategies choose by the mean alone.
    is_cautious: ClassVar[bool] = False

    def propose(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the next mode among the allowed rows, None when nothing is worth measuring."""
        ...

    def predict(self, history: History) -> Prediction | None:
        """Return time and power of every mode of the space, None for strategies that do not predict."""
        ...

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the choice under the given limits from what is known."""
        ...


@runtime_checkable
class HasBelief(Protocol):
    """A strategy that knows time and power of every mode after each sample, within milliseconds."""

    belief: Belief


@runtime_checkable
class ChecksInFlight(Protocol):
    """A strategy that can name a mode to try for a moment while the chosen one trains."""

    def check(self, history: History, limits: Limits, allowed: BoolArray) -> Proposal | None:
        """Return the mode most worth a short check under these limits, None if none is worth it."""
        ...


@runtime_checkable
class Validated(Protocol):
    """A strategy whose model keeps some rows back and knows its error on them."""

    def validation_percent(self, history: History) -> tuple[float, float] | None:
        """Return mean absolute errors of time and power in percent, None before there is a model."""
        ...


def measured_prediction(problem: Problem, history: History) -> Prediction:
    """Return a prediction that knows only what was measured: the other modes are infinitely slow and costly."""
    size = len(problem.space)
    unknown = np.full(size, np.inf)
    time_s, power_w = unknown.copy(), unknown.copy()
    time_std, power_std = np.zeros(size), np.zeros(size)
    inside = history.rows >= 0
    rows = history.rows[inside]
    time_s[rows], power_w[rows] = history.step_s[inside], history.power_w[inside]
    time_std[rows] = history.step_s[inside] * history.noise[inside]
    power_std[rows] = history.power_w[inside] * history.power_noise[inside]
    return Prediction(time_s, time_std, power_w, power_std)


def measured_rows(problem: Problem, history: History) -> BoolArray:
    """Return which rows of the space were measured."""
    mask = np.zeros(len(problem.space), dtype=np.bool_)
    mask[history.rows[history.rows >= 0]] = True
    return mask


def select_measured(problem: Problem, history: History, limits: Limits) -> Choice:
    """Return the best measured mode."""
    return choose(
        measured_prediction(problem, history),
        problem.objective,
        limits,
        problem.work,
        problem.risk,
        history.peak_factors,
        eligible=measured_rows(problem, history),
    )


def random_order(problem: Problem) -> FloatArray:
    """Return a rank per row: the order in which a random plan of this seed visits the space."""
    return np.random.default_rng(problem.seed).random(len(problem.space))
