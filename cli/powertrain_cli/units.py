"""Numbers with their unit, as people type and read them."""

from __future__ import annotations

import math

import typer

LEAST_W = 0.1
# An interval that is wider than this share of its value says only that nobody knows.
WIDEST_SHARE = 0.5
WIDE = "> 50%"


def watts(value: str | float) -> float:
    """Read a power budget: 30, 30W and "30 W" are the same."""
    text = str(value).strip()
    number = text.removesuffix("W").removesuffix("w").strip()
    try:
        power_w = float(number)
    except ValueError:
        power_w = math.nan
    if not LEAST_W <= power_w < math.inf:
        raise typer.BadParameter(f"{text!r} is not a power of at least {LEAST_W} W: write watts, such as 30 or 30W")
    return power_w


def plus_minus(value: float, interval: float, scale: float = 1.0) -> str:
    """Return an interval (two standard deviations) for people; one that tells nothing is said to be wide."""
    return WIDE if interval > WIDEST_SHARE * abs(value) else f"{interval * scale:.1f}"


def duration(seconds: float | None) -> str:
    """Return a duration as kubectl writes ages."""
    if seconds is None:
        return "–"
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
