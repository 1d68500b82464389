"""The limit of this moment: the job's budget, its schedule, what the site can deliver, and what it allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from powertrain.api.v1alpha1 import AvailableWatts, SessionSpec
from powertrain.daily import entry_at, zone
from powertrain_agent.site import POLICY_SOURCE

STALE = timedelta(minutes=10)
LEAD = timedelta(seconds=5)  # a tick, a mode, and the seconds in which the power follows it


@dataclass(frozen=True)
class Budget:
    """The power limit to choose by and where it comes from, and what the site can deliver at all; None: no limit.

    A limit that is about to begin is `ahead`: what is guarded until then is `until_w`.
    """

    power_w: float | None
    source: str
    available_w: float | None = None
    ahead: bool = False
    until_w: float | None = None

    @property
    def guarded_w(self) -> float | None:
        """Return what readings are judged by."""
        return self.until_w if self.ahead else self.power_w


def budget_at(
    spec: SessionSpec,
    now: datetime,
    site_w: float | None = None,
    clock_doubt: str = "",
    site_source: str = POLICY_SOURCE,
) -> Budget:
    """Return the limit of a moment (with a time zone). The schedule replaces the budget, the site can only lower it.

    Where the clock is in doubt, nobody knows which entry holds: the lowest does.
    """
    budget = Budget(spec.limits.power_watts, "powerWatts")
    entry = entry_at(spec.schedule, now.astimezone(zone(spec.time_zone)).time())
    if clock_doubt and spec.schedule:
        least_w = min(watts for watts in (budget.power_w, *(e.watts for e in spec.schedule)) if watts is not None)
        budget = Budget(least_w, "the lowest entry of the schedule: the clock is in doubt")
    elif entry is not None:
        budget = Budget(entry.watts, f"schedule entry from {entry.from_}")
    available_w, available_source = _available(spec.available_watts, now, spec.limits.power_watts)
    for watts, source in ((available_w, available_source), (site_w, site_source)):
        if watts is not None and (budget.power_w is None or watts < budget.power_w):
            budget = Budget(watts, source)
    return replace(budget, available_w=available_w)


def budget_now(
    spec: SessionSpec,
    now: datetime,
    site_w: float | None = None,
    clock_doubt: str = "",
    site_source: str = POLICY_SOURCE,
) -> Budget:
    """Return the limit to choose by now: a lower one that is about to begin counts already.

    Else it would be broken first, for as long as the power takes to follow the mode.
    """
    present, soon = (budget_at(spec, at, site_w, clock_doubt, site_source) for at in (now, now + LEAD))
    lower = soon.power_w is not None and (present.power_w is None or soon.power_w < present.power_w)
    return replace(soon, ahead=True, until_w=present.power_w) if lower else present


def moment(text: str) -> datetime:
    """Return a moment with its time zone; a text that is none is told with what is right."""
    try:
        parsed_time = datetime.fromisoformat(text)
        if parsed_time.tzinfo is not None:
            return parsed_time
    except ValueError:
        pass
    raise ValueError(f"{text!r} is not a time; write RFC 3339 with a time zone, such as '2026-06-01T12:00:00Z'")


def _available(available: AvailableWatts | None, now: datetime, base_w: float | None) -> tuple[float | None, str]:
    if available is None:
        return None, ""
    if available.problem is not None:
        return available.watts, f"availableWatts: {available.problem}"
    if now - moment(available.observed_at) <= STALE:  # a time in the future counts as now
        return available.watts, "availableWatts"
    # Nobody knows what the site delivers now: the lower of its last word and the base budget.
    watts = available.watts if base_w is None else min(available.watts, base_w)
    return watts, "availableWatts (stale: its last value)"
