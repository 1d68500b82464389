"""What spoils a measurement besides its clocks: throttling, over-current, and others who use the board."""

from __future__ import annotations

from powertrain_agent.governing.ports import Health


def disturbance(before: Health, now: Health) -> str | None:
    """Say what spoils a window between two looks at the board; None if nothing does."""
    if now.throttling:
        return f"throttled: {', '.join(now.throttling)}"
    rising = [name for name, count in now.over_current.items() if count > before.over_current.get(name, count)]
    if rising:
        return f"over-current: {', '.join(rising)}"
    return now.foreign_load
