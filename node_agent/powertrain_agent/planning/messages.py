"""What the session asks the planner and what it gets back. A new question begins here: a member of Question."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from powertrain import PowerMode
from powertrain.profiling.history import ModeReport
from powertrain.profiling.problem import Problem
from powertrain_agent.planning.front import Point

# `powertrain.reference.SHIPPED`, without its module: that loads the models, which an idle agent does without.
SHIPPED_ONLY = ("shipped",)


class Question(StrEnum):
    """What is asked."""

    NEXT_MODE = "NextMode"  # which mode to measure next; the choice where there is none left
    CHECK = "Check"  # which mode to try for a moment while the chosen one runs
    CHOICE = "Choice"  # which mode to train in
    WAY_UP = "WayUp"  # which modes to climb by power alone, for a training that counts no steps


@dataclass(frozen=True)
class PlanRequest:
    """A question with everything that the planner must know: it keeps nothing between two requests."""

    question: Question
    problem: Problem
    strategy: str
    reports: tuple[ModeReport, ...] = ()
    extra_modes: int = 0  # beyond the plan's: known before, or asked for on top
    references: tuple[str, ...] = SHIPPED_ONLY  # folders among which the closest reference is picked


@dataclass(frozen=True)
class NextMode:
    """A mode to measure, why, and the step time that is expected of it; `upper_w` is what it may draw at most."""

    mode: PowerMode
    reason: str
    step_s: float | None = None
    upper_w: float | None = None


@dataclass(frozen=True)
class PlannedChoice:
    """The mode to train in (None: no mode keeps the limits), the second best, and why."""

    mode: PowerMode | None
    runner_up: PowerMode | None
    reason: str


@dataclass(frozen=True)
class PlanAnswer:
    """The answer; what the question does not ask for is None or empty."""

    next_mode: NextMode | None = None
    done: str | None = None  # why there is no next mode
    choice: PlannedChoice | None = None
    way_up: tuple[Point, ...] = ()  # by rising power
    front: tuple[Point, ...] = ()
    reference: str | None = None
    reference_version: str | None = None
    planned_modes: int | None = None
    validation_percent: tuple[float, float] | None = None  # errors of time and power, by the strategy's own validation


@dataclass(frozen=True)
class PlanFailure:
    """Why there is no answer; `unavailable`: this strategy will not work here, however often it is asked."""

    error: str
    unavailable: bool = False


@dataclass(frozen=True)
class Planned:
    """The answer to the request of this number."""

    number: int
    answer: PlanAnswer | PlanFailure


class Planner(Protocol):
    """Works on requests elsewhere; each is answered by one Planned event with its number."""

    @property
    def busy(self) -> bool:
        """Say whether a fit runs: it takes a core, so nothing is measured meanwhile."""
        ...

    def submit(self, number: int, request: PlanRequest) -> None:
        """Begin to work on a request."""
        ...

    def rest(self) -> None:
        """Give back what is held while nothing is asked (the process ends); never waits."""
        ...
