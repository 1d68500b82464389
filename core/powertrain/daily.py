"""Daily schedules: which entry of the hours of a day holds at a moment, and when the next ones begin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Protocol, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DAY_MINUTES = 24 * 60


class DailyEntry(Protocol):
    """A stretch of each day; without an end it holds until the next entry begins."""

    @property
    def from_(self) -> str:
        """Return when it begins, as HH:MM."""
        ...

    @property
    def to(self) -> str | None:
        """Return when it ends, as HH:MM."""
        ...


Entry = TypeVar("Entry", bound=DailyEntry)


def entry_at(entries: Sequence[Entry], now: time) -> Entry | None:
    """Return the entry that holds; where several do, the one that began last."""
    holding = [entry for entry in entries if _holds(entry, entries, now)]
    return min(holding, key=lambda entry: _minutes_since(entry, now), default=None)


def changes_within(entries: Sequence[Entry], now: datetime, ahead: timedelta) -> list[datetime]:
    """Return the moments at which an entry may begin or end, after now and in order; `now` is in the schedule's zone.

    Hours are those of the wall clock: on a day with a change of the clocks a moment may come an hour earlier or later.
    """
    clocks = {text for entry in entries for text in (entry.from_, entry.to) if text is not None}
    moments = set()
    for day in range(ahead.days + 2):
        date = now.date() + timedelta(days=day)
        for text in clocks:
            minutes = minutes_of(text)
            moment = datetime.combine(date, time(minutes // 60, minutes % 60), now.tzinfo)
            if now < moment <= now + ahead:
                moments.add(moment)
    return sorted(moments)


def zone(name: str) -> ZoneInfo:
    """Return a time zone; an unknown name is told with what is right."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # "Europe" is a directory
        raise ValueError(f"unknown time zone {name!r}; right are IANA names such as 'Europe/Berlin' or 'UTC'") from None


def minutes_of(text: str) -> int:
    """Return the minutes since midnight of HH:MM."""
    hours, _, minutes = text.partition(":")
    return 60 * int(hours) + int(minutes)


def _minutes_since(entry: DailyEntry, now: time) -> int:
    return (60 * now.hour + now.minute - minutes_of(entry.from_)) % _DAY_MINUTES


def _holds(entry: DailyEntry, entries: Sequence[DailyEntry], now: time) -> bool:
    begin = minutes_of(entry.from_)
    if entry.to is not None:
        length = (minutes_of(entry.to) - begin) % _DAY_MINUTES or _DAY_MINUTES
    else:
        # Without an end it holds until the next one begins, a whole day where it is alone.
        later = [(minutes_of(other.from_) - begin) % _DAY_MINUTES for other in entries]
        length = min((minutes for minutes in later if minutes > 0), default=_DAY_MINUTES)
    return _minutes_since(entry, now) < length
