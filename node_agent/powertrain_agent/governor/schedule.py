"""The limit of this moment: the job's budget, its schedule, and what the site says it can deliver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from powertrain.api.v1alpha1 import AvailableWatts, ScheduleEntry, SessionSpec

STALE = timedelta(minutes=10)


@dataclass(frozen=True)
class Budget:
    """The power limit in force and where it comes from; None: no limit."""

    power_w: float | None
    source: str


def budget_at(spec: SessionSpec, now: datetime) -> Budget:
    """Return the limit of a moment (with a time zone). The schedule replaces the budget, the site can only lower it."""
    budget = Budget(spec.limits.power_watts, "powerWatts")
    entry = entry_at(spec.schedule, now.astimezone(zone(spec.time_zone)).time())
    if entry is not None:
        budget = Budget(entry.watts, f"schedule entry from {entry.from_}")
    return _lowered(budget, spec.available_watts, now, spec.limits.power_watts)


def entry_at(entries: Sequence[ScheduleEntry], now: time) -> ScheduleEntry | None:
    """Return the entry that holds; where several do, the one that began last."""
    holding = [entry for entry in entries if _holds(entry, entries, now)]
    return min(holding, key=lambda entry: _minutes_since(entry, now), default=None)


def zone(name: str) -> ZoneInfo:
    """Return a time zone; an unknown name is told with what is right."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"unknown time zone {name!r}; right are IANA names such as 'Europe/Berlin' or 'UTC'") from None


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return 60 * int(hours) + int(minutes)


def _minutes_since(entry: ScheduleEntry, now: time) -> int:
    return (60 * now.hour + now.minute - _minutes(entry.from_)) % (24 * 60)


def _holds(entry: ScheduleEntry, entries: Sequence[ScheduleEntry], now: time) -> bool:
    begin = _minutes(entry.from_)
    if entry.to is not None:
        length = (_minutes(entry.to) - begin) % (24 * 60) or 24 * 60
    else:
        # Without an end it holds until the next one begins, a whole day where it is alone.
        later = [(_minutes(other.from_) - begin) % (24 * 60) for other in entries]
        length = min((minutes for minutes in later if minutes > 0), default=24 * 60)
    return _minutes_since(entry, now) < length


def _lowered(budget: Budget, available: AvailableWatts | None, now: datetime, base_w: float | None) -> Budget:
    if available is None:
        return budget
    watts, source = available.watts, "availableWatts"
    if now - datetime.fromisoformat(available.observed_at) > STALE:
        # Nobody knows what the site delivers now: the lower of its last word and the base budget.
        watts = watts if base_w is None else min(watts, base_w)
        source = "availableWatts (stale: its last value)"
    if budget.power_w is None or watts < budget.power_w:
        return Budget(watts, source)
    return budget
