"""The states of a session, each with just its own data. What the session knows in every state is in `session.py`."""

from __future__ import annotations

from dataclasses import dataclass

from powertrain.api.v1alpha1 import Phase
from powertrain_agent.governing.revisit_round import Round
from powertrain_agent.governing.visit import Visit
from powertrain_agent.planning.front import Point
from powertrain_agent.planning.messages import Question


@dataclass(frozen=True)
class New:
    """Nothing was decided yet: the session has just come, or the agent has just started again."""


@dataclass(frozen=True)
class Starting:
    """The safe mode could not be set yet, so the gate is closed; it is tried again."""

    retry_at_s: float


@dataclass(frozen=True)
class WaitingForSteps:
    """The gate is open and the safe mode is set; the training has not counted a step yet."""


@dataclass(frozen=True)
class Holding:
    """The plan holds the session at the safe mode: no mode is tried, the guard is on."""


@dataclass(frozen=True)
class Planning:
    """The planner works on a question; the mode stays. After a failure it is asked again (`retry_at_s`)."""

    question: Question
    number: int
    retry_at_s: float | None = None


@dataclass(frozen=True)
class Profiling:
    """A mode is measured that the planner wants to know."""

    visit: Visit


@dataclass(frozen=True)
class Confirming:
    """The chosen mode was never measured in this session: it is, before the training runs in it."""

    visit: Visit
    because: str  # why it was chosen


@dataclass(frozen=True)
class Checking:
    """A mode that is predicted to be better is tried for a moment while the training runs."""

    visit: Visit


@dataclass(frozen=True)
class Revisiting:
    """Points of the front are measured again, after a drift or because it is time to."""

    visit: Visit
    round: Round


@dataclass(frozen=True)
class Climbing:
    """Without steps: modes of rising power are tried until the power says stop."""

    visit: Visit
    left: tuple[Point, ...]


@dataclass(frozen=True)
class Running:
    """The training runs in the chosen mode, or in the one of least power where none keeps the limits."""

    retry_at_s: float | None = None  # the mode could not be set: it is chosen again then
    rests_until_s: float | None = None  # the windows have no room for the mode yet: the board rests, at most until then


@dataclass(frozen=True)
class Blind:
    """The power can't be read: the mode of least power is held."""


@dataclass(frozen=True)
class Restoring:
    """The session is over, but not everything could be restored yet."""

    phase: Phase  # before that


@dataclass(frozen=True)
class Ended:
    """The original settings are restored, or were never changed."""


@dataclass(frozen=True)
class Refused:
    """The agent does not speak the envelope's protocol."""


Trial = Profiling | Confirming | Checking | Revisiting | Climbing
TRIALS = (Profiling, Confirming, Checking, Revisiting, Climbing)
Served = Starting | WaitingForSteps | Holding | Planning | Trial | Running | Blind | Restoring
State = New | Served | Ended | Refused
