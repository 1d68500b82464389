"""What the session needs from outside: a board, and somebody to report to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from powertrain import ModeSpace, PowerMode
from powertrain.api.v1alpha1 import NodePolicy, SessionStatus


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
    def preset_watts(self) -> tuple[float | None, ...]:
        """Return the watts on the labels of the board's presets; none for a board that the catalogue does not know."""
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


# Publishes the session's status; the flag says that a transition is in it, which is written at once.
ReportStatus = Callable[[SessionStatus, bool], None]
