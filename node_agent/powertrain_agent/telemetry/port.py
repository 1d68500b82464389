"""The telemetry port: what every source of power readings gives, and how it says that it can't."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Clock = Callable[[], float]


class SourceError(Exception):
    """A reading that could not be taken now; the next one may work."""


class SourceUnavailableError(Exception):
    """A source that can't be used on this machine; the message says why and what would help."""


@dataclass(frozen=True)
class Reading:
    """The module's power at one moment of the monotonic clock; the rails are without a site's offset."""

    at_s: float
    power_w: float
    rails_w: Mapping[str, float] = field(default_factory=dict)
    offset_w: float = 0.0  # of the site, within power_w
    supply_v: float | None = None  # the input's voltage, where a rail shows it

    @property
    def supply_a(self) -> float | None:
        """Return the current from the supply, the site's offset included; None where no rail shows a voltage."""
        return self.power_w / self.supply_v if self.supply_v else None


class PowerSource(Protocol):
    """Something that reads the board's power. `read` may wait for the source's own next sample."""

    @property
    def name(self) -> str:
        """Return the source's name, as it is reported."""
        ...

    def read(self) -> Reading:
        """Return the power now, or raise SourceError."""
        ...

    def close(self) -> None:
        """Give up what the source holds open."""
        ...
