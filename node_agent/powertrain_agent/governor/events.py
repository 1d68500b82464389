"""What the loop is fed with: every input is a value in one queue, so that one thread knows the whole truth.

Readings (`telemetry.Reading`), steps (`steps.StepsSeen`) and what a training says (`steps.TrainingSaid`) are events.
Times are seconds of the loop's clock, which runs with the board's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from powertrain.api.v1alpha1 import NodePolicy, SessionSpec
from powertrain_agent.process import Process
from powertrain_agent.steps import StepsSeen, TrainingSaid
from powertrain_agent.telemetry import Reading


@dataclass(frozen=True)
class EnvelopeSeen:
    """The PowerNode's spec as it is now: the session (None: no job) and the uid of one that is over."""

    spec: SessionSpec | None
    release: str | None
    at: float
    refused: bool = False  # there is a session, but in words that this agent does not understand


@dataclass(frozen=True)
class PolicySeen:
    """The site's policy as it is now; None: there is none."""

    policy: NodePolicy | None


@dataclass(frozen=True)
class HeldBy:
    """The session without pods belongs to this process from now on: the training that was started for it."""

    uid: str
    process: Process


@dataclass(frozen=True)
class ApiAway:
    """The API server does not answer, since then."""

    since: float


@dataclass(frozen=True)
class ApiBack:
    """The API server answers again."""


@dataclass(frozen=True)
class PowerNodeGone:
    """The PowerNode was deleted."""


@dataclass(frozen=True)
class SensorFailed:
    """A reading could not be taken."""

    reason: str
    first: bool = True  # of a stretch of failures


@dataclass(frozen=True)
class Planned:
    """The planner's answer to the request of this number; `error` where it has none."""

    number: int
    answer: dict[str, Any]
    error: str | None = None


@dataclass(frozen=True)
class Tick:
    """Time passes: about once a second."""

    at: float


Event = (
    Reading
    | StepsSeen
    | TrainingSaid
    | EnvelopeSeen
    | PolicySeen
    | HeldBy
    | ApiAway
    | ApiBack
    | PowerNodeGone
    | SensorFailed
    | Planned
    | Tick
)
