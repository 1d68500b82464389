"""The cap of a moment: a PowerBudget's watts, its schedule, and what a charge controller says of supply and battery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from math import isfinite

from powertrain.api.v1alpha1 import BatteryEntry, PowerBudgetSpec
from powertrain.daily import changes_within, entry_at, zone
from powertrain_operator import names

# A fall of the schedule counts so much earlier: shares are lowered and confirmed by the time it holds.
LEAD = timedelta(seconds=60)
AHEAD = timedelta(hours=24)
STALE = timedelta(minutes=10)
# A battery that wavers around an entry must not stop and start training again and again.
LEAVE_PERCENT = 2.0
_MAX_QUOTED = 40


@dataclass(frozen=True)
class Cap:
    """The watts that hold now and why; `problem` says what of the annotations can't be used."""

    watts: float
    source: str
    problem: str = ""
    battery_below: float | None = None


def cap_at(
    spec: PowerBudgetSpec, annotations: Mapping[str, str], now: datetime, battery_below: float | None = None
) -> Cap:
    """Return the cap of a moment; a lower one that the schedule is about to bring counts already.

    `battery_below` is the entry of the battery table that was in force before.
    """
    present, soon = (_scheduled(spec, at) for at in (now, now + LEAD))
    cap = soon if soon.watts < present.watts else present
    for candidate in (_battery(spec, annotations, now, battery_below), _supply(spec, annotations, now)):
        if candidate is None:
            continue
        lower = candidate if candidate.watts < cap.watts else cap
        below = candidate.battery_below if candidate.battery_below is not None else cap.battery_below
        problem = "; ".join(filter(None, (cap.problem, candidate.problem)))
        cap = replace(lower, problem=problem, battery_below=below)
    return cap


def falls_ahead(spec: PowerBudgetSpec, now: datetime, cap_w: float) -> list[tuple[datetime, float]]:
    """Return when the schedule lowers the cap within the next day, each below all before it."""
    falls, lowest_w = [], cap_w
    for moment in changes_within(spec.schedule, now.astimezone(_zone(spec)), AHEAD):
        watts = _scheduled(spec, moment).watts
        if watts < lowest_w:
            falls.append((moment.astimezone(UTC), watts))
            lowest_w = watts
    return falls


def rises_to(spec: PowerBudgetSpec, now: datetime, wanted_w: float) -> datetime | None:
    """Return when the schedule next allows so many watts, None if it never does or the present cap is no schedule's."""
    for moment in changes_within(spec.schedule, now.astimezone(_zone(spec)), AHEAD):
        if _scheduled(spec, moment).watts >= wanted_w:
            return moment.astimezone(UTC)
    return None


def lowest_entry_w(spec: PowerBudgetSpec) -> float:
    """Return the lowest cap that the budget names anywhere."""
    return min((spec.watts, *(e.watts for e in spec.schedule), *(e.watts for e in spec.battery)))


def _zone(spec: PowerBudgetSpec) -> tzinfo:
    try:
        return zone(spec.time_zone)
    except ValueError:
        return UTC


def _scheduled(spec: PowerBudgetSpec, now: datetime) -> Cap:
    try:
        local = now.astimezone(zone(spec.time_zone))
    except ValueError as error:
        return Cap(lowest_entry_w(spec), "the lowest entry: the time zone is unknown", f"timeZone: {error}")
    entry = entry_at(spec.schedule, local.time())
    return Cap(spec.watts, "watts") if entry is None else Cap(entry.watts, f"schedule entry from {entry.from_}")


def _battery(
    spec: PowerBudgetSpec, annotations: Mapping[str, str], now: datetime, in_force: float | None
) -> Cap | None:
    if not spec.battery:
        return None
    try:
        percent = _number(annotations, names.BATTERY_PERCENT, "a plain number of percent, such as 55", most=100.0)
        _fresh(annotations, names.BATTERY_PERCENT_AT, now)
    except ValueError as error:
        lowest = min(spec.battery, key=lambda entry: entry.watts)
        words = f"{error}: the lowest entry of the battery table holds"
        return Cap(lowest.watts, f"battery entry below {lowest.below:g} %", words, lowest.below)
    entry = _entry(spec.battery, percent, in_force)
    if entry is None:
        return None
    source = f"battery entry below {entry.below:g} %, at {percent:g} %"
    return Cap(entry.watts, source, battery_below=entry.below)


def _entry(entries: Sequence[BatteryEntry], percent: float, in_force: float | None) -> BatteryEntry | None:
    """Return the entry of a charge; the one that was in force is left only some percent above its bound."""

    def holds(entry: BatteryEntry) -> bool:
        margin = LEAVE_PERCENT if in_force is not None and entry.below >= in_force and entry.below < 100 else 0.0
        return percent < entry.below + margin

    holding = [entry for entry in entries if holds(entry)]
    return min(holding, key=lambda entry: entry.watts, default=None)


def _supply(spec: PowerBudgetSpec, annotations: Mapping[str, str], now: datetime) -> Cap | None:
    if names.AVAILABLE_WATTS not in annotations:
        return None
    has_entries = bool(spec.schedule or spec.battery)
    try:
        watts = _number(annotations, names.AVAILABLE_WATTS, "a plain number of watts, such as 62.5")
    except ValueError as error:
        lowest_w = lowest_entry_w(spec) if has_entries else 0.0
        return Cap(lowest_w, "the lowest entry" if has_entries else "no known supply", f"{error}: {lowest_w:g} W hold")
    try:
        _fresh(annotations, names.AVAILABLE_WATTS_AT, now)
    except ValueError as error:
        lowest_w = min(watts, lowest_entry_w(spec))
        words = f"{error}: the lowest entry, or the last value if that is lower, holds: {lowest_w:g} W"
        return Cap(lowest_w, f"{names.AVAILABLE_WATTS} is stale", words)
    return Cap(watts, names.AVAILABLE_WATTS)


def _number(annotations: Mapping[str, str], name: str, right: str, most: float = float("inf")) -> float:
    text = annotations.get(name)
    if text is None:
        raise ValueError(f"{name} is missing; write {right}")
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or not 0 <= value <= most:
        raise ValueError(f"{name} {text[:_MAX_QUOTED]!r} is not right; write {right}")
    return value


def _fresh(annotations: Mapping[str, str], name: str, now: datetime) -> None:
    """Raise where a time is missing, unreadable or too long ago; one in the future counts as now."""
    text, right = annotations.get(name), "write when it was measured as RFC 3339, such as 2026-06-01T12:00:00Z"
    if text is None:
        raise ValueError(f"{name} is missing; {right}")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError(f"{name} {text[:_MAX_QUOTED]!r} is not a time with a time zone; {right}")
    if now - at > STALE:
        raise ValueError(f"{name} is {(now - at).total_seconds() / 60:.0f} min old, more than 10")
