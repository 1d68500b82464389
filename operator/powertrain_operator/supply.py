"""What a Node's annotations say its site can deliver; what can't be read counts as 0 W, never as "no limit".

How old a value may be is the agent's decision: `powertrain_agent/governing/schedule.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite

from powertrain.api.v1alpha1 import AvailableWatts, moment
from powertrain_operator import names

_MAX_QUOTED = 40  # characters of a value that can't be read


def supply(annotations: Mapping[str, str], now: datetime) -> AvailableWatts | None:
    """Return what is available, None where nobody says anything about it."""
    watts = annotations.get(names.AVAILABLE_WATTS)
    if watts is None:
        return None
    try:
        value, observed = _watts(watts), _observed(annotations.get(names.AVAILABLE_WATTS_AT))
    except ValueError as error:
        return AvailableWatts(watts=0.0, observed_at=moment(now), problem=str(error))
    return AvailableWatts(watts=value, observed_at=moment(observed))


def _watts(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or value < 0:
        right = "write a plain number of watts, such as 12.5"
        raise ValueError(f"{names.AVAILABLE_WATTS} {text[:_MAX_QUOTED]!r} is not a number of watts; {right}")
    return value


def _observed(text: str | None) -> datetime:
    right = "write when it was measured as RFC 3339, such as 2026-06-01T12:00:00Z"
    if text is None:
        raise ValueError(f"{names.AVAILABLE_WATTS_AT} is missing; {right}")
    try:
        observed = datetime.fromisoformat(text)
        if observed.tzinfo is not None:
            return observed.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{names.AVAILABLE_WATTS_AT} {text[:_MAX_QUOTED]!r} is not a time with a time zone; {right}")
