"""What happens to a session. Every input is a value, so that one thread knows the whole truth.

Readings (`telemetry.Reading`), steps (`steps.StepsSeen`), what a training says (`steps.TrainingSaid`) and the planner's
answers (`planning.messages.Planned`) are events too. Times are seconds of the agent's clock, which runs with the board.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from powertrain import PowerMode
from powertrain.api.v1alpha1 import NodePolicy, PowerShare, SessionSpec
from powertrain_agent.governing.ports import Health
from powertrain_agent.planning.messages import Planned
from powertrain_agent.process import Process
from powertrain_agent.steps import StepsSeen, TrainingSaid
from powertrain_agent.telemetry import Reading

# Events of the agent: the executor turns them into events of the session that it serves.


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
class SharesSeen:
    """The board's shares of PowerBudgets as they are now."""

    shares: tuple[PowerShare, ...]


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
class Tick:
    """Time passes: about once a second."""

    at: float


Event = (
    Reading
    | StepsSeen
    | TrainingSaid
    | EnvelopeSeen
    | PolicySeen
    | SharesSeen
    | HeldBy
    | ApiAway
    | ApiBack
    | PowerNodeGone
    | SensorFailed
    | Planned
    | Tick
)

# Events of a session alone.


@dataclass(frozen=True)
class Opened:
    """The session has come."""


@dataclass(frozen=True)
class Resumed:
    """The agent is back, and with it what was saved of the session."""


@dataclass(frozen=True)
class Amended:
    """The envelope of the session changed."""

    spec: SessionSpec


@dataclass(frozen=True)
class PolicyChanged:
    """The site's limits changed."""


@dataclass(frozen=True)
class ModeApplied:
    """A mode was set and verified, or not; `reason` says what failed."""

    mode: PowerMode
    ok: bool
    reason: str = ""


@dataclass(frozen=True)
class Inspected:
    """How the board looks: clocks that do not run as the mode asks, by file; heat, throttling and load."""

    off_clock: dict[str, int] = field(default_factory=dict)
    health: Health = field(default_factory=Health)


@dataclass(frozen=True)
class ModeChecked:
    """Somebody else may have changed the mode: it was checked and written again, which failed for these reasons."""

    mode: PowerMode | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Restored:
    """The session is over and its board was restored, except for these problems; or it was never changed."""

    reason: str
    problems: tuple[str, ...] = ()
    was_changed: bool = True


@dataclass(frozen=True)
class ReportDue:
    """It is time to publish figures and to look after gate and fan: after each Tick, also one that failed."""


Result = ModeApplied | Inspected
SessionEvent = (
    Opened
    | Resumed
    | Reading
    | StepsSeen
    | TrainingSaid
    | Planned
    | Tick
    | Amended
    | PolicyChanged
    | ModeChecked
    | Restored
    | ReportDue
    | Result
)
