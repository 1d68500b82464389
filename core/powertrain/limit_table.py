"""The limits that a user can set: one entry each.

An entry drives the API field and its CEL rules, the core's `Limits`, feasibility, the option of `powertrain choose` and
what people read. A new limit is one entry in LIMITS, with its test.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# The window of a mean limit: the papers saw the power settle within two to three seconds.
DEFAULT_WINDOW_S = 3.0
# A mean over more than this hides from the site what its supply has to deliver now.
MAX_WINDOW_S = 60.0


class Quantity(StrEnum):
    """What a limit bounds."""

    POWER = "power"
    TIME = "time"
    ENERGY = "energy"


class Span(StrEnum):
    """Over what a limit is counted; the workload turns it into steps."""

    MEAN = "mean"
    READING = "reading"
    STEP = "step"
    EPOCH = "epoch"
    TRAINING = "training"


@dataclass(frozen=True)
class LimitEntry:
    """One limit: its names, what it bounds, and its words."""

    field: str  # of the API, in snake case
    attribute: str | None  # of the core's Limits; None for a limit that the agent turns into another one
    quantity: Quantity
    span: Span
    unit: str
    words: str  # what a person calls it
    sentence: str  # how `powertrain explain` says it, with {} for the value
    description: str  # of the API field in a TrainingJob
    in_session: str = ""  # the same in a session; as in a TrainingJob if empty
    option: str | None = None  # of `powertrain choose`; None if it has none
    help: str = ""
    may_override: bool = False  # whether an override for some nodes can replace it

    @property
    def wire_name(self) -> str:
        """Return the name in an API object."""
        first, *others = self.field.split("_")
        return first + "".join(word.title() for word in others)


LIMITS = (
    LimitEntry(
        "power_watts",
        "power_w",
        Quantity.POWER,
        Span.MEAN,
        unit="W",
        words="power",
        sentence="{} W",
        description="Module power, mean over any guardWindowSeconds from the first container to the last.",
        in_session="Mean over any guard window.",
        may_override=True,
    ),
    LimitEntry(
        "hard_limit_watts",
        "hard_limit_w",
        Quantity.POWER,
        Span.READING,
        unit="W",
        words="peak power",
        sentence="no reading above {} W",
        description="No single reading above it; one above is counted and left at once.",
        in_session="No single reading above it.",
        option="hard_limit",
        help="No single reading above these watts.",
        may_override=True,
    ),
    LimitEntry(
        "hard_limit_amps",
        None,
        Quantity.POWER,
        Span.READING,
        unit="A",
        words="peak current",
        sentence="no reading above {} A",
        description="No single reading above it, in amperes at the supply's measured voltage: a fuse.",
        in_session="No single reading above it, in amperes at the supply's voltage.",
        may_override=True,
    ),
    LimitEntry(
        "epoch_seconds",
        "epoch_s",
        Quantity.TIME,
        Span.EPOCH,
        unit="s",
        words="epoch time",
        sentence="{} s for an epoch",
        description="Longest epoch.",
        option="epoch_seconds",
        help="Longest epoch.",
        may_override=True,
    ),
    LimitEntry(
        "training_seconds",
        "training_s",
        Quantity.TIME,
        Span.TRAINING,
        unit="s",
        words="training time",
        sentence="{} s for the training",
        description="Longest training.",
        option="training_seconds",
        help="Longest training.",
    ),
    LimitEntry(
        "energy_joules_per_epoch",
        "energy_per_epoch_j",
        Quantity.ENERGY,
        Span.EPOCH,
        unit="J",
        words="energy per epoch",
        sentence="{} J for an epoch",
        description="Most energy of an epoch.",
        option="energy_joules_per_epoch",
        help="Most energy an epoch may take.",
        may_override=True,
    ),
    LimitEntry(
        "energy_joules",
        "energy_j",
        Quantity.ENERGY,
        Span.TRAINING,
        unit="J",
        words="energy of the training",
        sentence="{} J for the training",
        description="Most energy of the training.",
        option="energy_joules",
        help="Most energy the training may take.",
    ),
)


def wire_names(*, of: tuple[Quantity, ...] = tuple(Quantity), per: tuple[Span, ...] = tuple(Span)) -> list[str]:
    """Return the API names of the limits on these quantities over these spans."""
    return [limit.wire_name for limit in LIMITS if limit.quantity in of and limit.span in per]
