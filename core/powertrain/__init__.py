"""PowerTrain's science and API types: no Kubernetes calls, no sysfs, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from powertrain.modes import ModeError, PowerMode

if TYPE_CHECKING:
    from powertrain.space import ModeSpace

__all__ = ["ModeError", "ModeSpace", "PowerMode", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load ModeSpace, and numpy with it, only for those who use it: commands that only list things start faster."""
    if name == "ModeSpace":
        from powertrain.space import ModeSpace

        return ModeSpace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
