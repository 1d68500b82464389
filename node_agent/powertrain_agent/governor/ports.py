"""What the loop needs from outside: the board, the planner, metrics, and somebody to report to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from powertrain import ModeSpace, PowerMode
from powertrain.api.v1alpha1 import NodePolicy, SessionStatus
from powertrain_agent.governor.front import Point
from powertrain_agent.steps import Dropped, StepsSeen
from powertrain_agent.telemetry import Reading


@dataclass(frozen=True)
class Applied:
    """How a change of the board went; `reason` says what failed or differs from what was asked."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True)
class Health:
    """What disturbs a board: heat, throttling alerts that are on, over-current counters, and others who use it."""

    temperature_c: float | None = None
    throttling: tuple[str, ...] = ()
    over_current: Mapping[str, int] = field(default_factory=dict)
    foreign_load: str | None = None


class BoardPort(Protocol):
    """The board as the loop sees it."""

    @property
    def space(self) -> ModeSpace:
        """Return the modes that can be applied."""
        ...

    @property
    def device(self) -> str | None:
        """Return the catalogue's name, None for a board it does not know."""
        ...

    @property
    def descending_only(self) -> bool:
        """Say whether clocks can only be lowered until the next boot."""
        ...

    def boot_id(self) -> str:
        """Return which boot this is."""
        ...

    def apply(self, mode: PowerMode) -> Applied:
        """Set a mode and verify it; on failure the mode before is back."""
        ...

    def refit(self, policy: NodePolicy) -> Applied:
        """Follow another core policy: other modes, another fingerprint. Not while a mode is held."""
        ...

    def fan_max(self, on: bool) -> Applied:
        """Set the fan to its maximum, or back to what was found."""
        ...

    def off_clock(self, mode: PowerMode) -> dict[str, int]:
        """Return the clocks that do not run as the mode asks, by file."""
        ...

    def health(self) -> Health:
        """Look at heat, throttling and foreign load."""
        ...


class Planner(Protocol):
    """Fits and plans elsewhere; the answer to a request comes back as a Planned event with the same number."""

    @property
    def busy(self) -> bool:
        """Say whether a fit runs: it takes a core, so nothing is measured meanwhile."""
        ...

    def submit(self, number: int, request: dict[str, Any]) -> None:
        """Begin to work on a request."""
        ...

    def rest(self) -> None:
        """Give back what is held while nothing is asked (the process ends); never waits."""
        ...


class Metrics(Protocol):
    """What is counted and measured, for Prometheus."""

    def power(self, reading: Reading) -> None:
        """Take a reading: rails, total, energy."""
        ...

    def sensor_failed(self) -> None:
        """A reading could not be taken."""
        ...

    def session(self, job: str | None) -> None:
        """The board serves this job now, or none."""
        ...

    def steps(self, job: str, seen: StepsSeen, batch_size: int) -> None:
        """Steps of a job ended."""
        ...

    def mode(self, desired: PowerMode | None, applied: bool) -> None:
        """Another mode is asked for; `applied` says whether the board was seen to have it."""
        ...

    def budget(self, limit_w: float | None) -> None:
        """Another power limit is in force."""
        ...

    def expectation(self, predicted: Point | None, step_s: float | None, power_w: float | None) -> None:
        """What is expected of the mode, and what is observed."""
        ...

    def front(self, points: Sequence[Point]) -> None:
        """The front as it is known now; empty without a session."""
        ...

    def profiling(self, measured: int, planned: int | None, seconds: float) -> None:
        """Profiling progressed."""
        ...

    def window(self, verdict: str, seconds: float) -> None:
        """A measuring window ended."""
        ...

    def guard(self, action: str) -> None:
        """The guard acted."""
        ...

    def violation(self, kind: str, count: int) -> None:
        """So many guard windows ("window") or readings ("reading") were above their limit since the last call."""
        ...

    def health(self, health: Health) -> None:
        """Heat, throttling, over-current."""
        ...

    def restored(self, ok: bool) -> None:
        """What was found is back, or not all of it."""
        ...

    def dropped(self, dropped: Dropped) -> None:
        """Datagrams that did not count, as running totals of the session."""
        ...


# Publishes the session's status; the flag says that a transition is in it, which is written at once.
Report = Callable[[SessionStatus, bool], None]


class NoMetrics:
    """Metrics that nobody collects."""

    def power(self, reading: Reading) -> None:
        """Do nothing."""

    def sensor_failed(self) -> None:
        """Do nothing."""

    def session(self, job: str | None) -> None:
        """Do nothing."""

    def steps(self, job: str, seen: StepsSeen, batch_size: int) -> None:
        """Do nothing."""

    def mode(self, desired: PowerMode | None, applied: bool) -> None:
        """Do nothing."""

    def budget(self, limit_w: float | None) -> None:
        """Do nothing."""

    def expectation(self, predicted: Point | None, step_s: float | None, power_w: float | None) -> None:
        """Do nothing."""

    def front(self, points: Sequence[Point]) -> None:
        """Do nothing."""

    def profiling(self, measured: int, planned: int | None, seconds: float) -> None:
        """Do nothing."""

    def window(self, verdict: str, seconds: float) -> None:
        """Do nothing."""

    def guard(self, action: str) -> None:
        """Do nothing."""

    def violation(self, kind: str, count: int) -> None:
        """Do nothing."""

    def health(self, health: Health) -> None:
        """Do nothing."""

    def restored(self, ok: bool) -> None:
        """Do nothing."""

    def dropped(self, dropped: Dropped) -> None:
        """Do nothing."""
