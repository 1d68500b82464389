"""What a decision wants done. The executor carries commands out in their order and decides nothing.

`ApplyMode` and `Inspect` have a result, which comes back as the event beside them; a decision that needs it waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from powertrain import PowerMode
from powertrain.api.v1alpha1 import Reason, SessionStatus
from powertrain_agent.governing.measurement_window import Verdict
from powertrain_agent.planning.messages import PlanRequest


@dataclass(frozen=True)
class ApplyMode:
    """Set a mode and verify it → ModeApplied."""

    mode: PowerMode


@dataclass(frozen=True)
class Inspect:
    """Look at the board: the clocks that a mode asks for (None: do not), and heat and load → Inspected."""

    clocks_of: PowerMode | None
    health: bool


@dataclass(frozen=True)
class OpenGate:
    """Let the training start: its mode is verified."""


@dataclass(frozen=True)
class CloseGate:
    """Let new pods wait: nobody would know of them."""


@dataclass(frozen=True)
class AskPlanner:
    """Hand a request to the planner; the answer comes as Planned with this number."""

    number: int
    request: PlanRequest


@dataclass(frozen=True)
class RestPlanner:
    """Let the planner's process end: there is no question for now."""


@dataclass(frozen=True)
class SetFan:
    """Run the fan at its maximum, or with its original settings."""

    maximum: bool


@dataclass(frozen=True)
class Say:
    """Log one decision with its reason."""

    reason: Reason
    text: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Publish:
    """Report the session's status; an urgent one holds a decision and is written at once."""

    status: SessionStatus
    urgent: bool
    failure: Exception | None = None  # why the status has no figures


@dataclass(frozen=True)
class Save:
    """Write the session to the disk."""


@dataclass(frozen=True)
class Forget:
    """Remove what is left of the session on this host: its files, its gate, its socket."""

    reason: str


# Not done by anybody: noted for whoever counts (metrics.py).


@dataclass(frozen=True)
class WindowEnded:
    """A measuring window ended."""

    verdict: Verdict
    seconds: float


@dataclass(frozen=True)
class GuardLowered:
    """The guard set a mode of less power."""


@dataclass(frozen=True)
class LimitsBroken:
    """Guard windows and single readings were above their limits."""

    windows: int
    readings: int


Command = (
    ApplyMode
    | Inspect
    | OpenGate
    | CloseGate
    | AskPlanner
    | RestPlanner
    | SetFan
    | Say
    | Publish
    | Save
    | Forget
    | WindowEnded
    | GuardLowered
    | LimitsBroken
)
