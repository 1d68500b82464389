"""The constants of exploring and choosing under a mean limit, each with its reason."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from powertrain.limit_table import DEFAULT_WINDOW_S

# In so many runs a window of readings comes above the limit by noise alone; the guard then lowers the mode for a while.
BREAKING_RUNS = 0.1
# A visit to a mode close to the limit begins from a level of at most this share of it, or this much above the rest.
CALM_SHARE, CALM_ABOVE_REST = 0.9, 1.02


@dataclass(frozen=True, slots=True)
class MeanRules:
    """Shares are of the limit. A mean of thirty readings with 1 % noise scatters by 0.18 %."""

    window_s: float = DEFAULT_WINDOW_S
    period_s: float = 0.1
    # What the projection of a visit may reach in any window; the rest is for noise in the readings that it starts from.
    visit_share: float = 0.993
    # What the plan of a visit may reach before it begins, when its power is a prediction.
    plan_share: float = 0.986
    # The same for a visit that may last: to a mode whose upper power lies below `stay_share`.
    stay_plan_share: float = 0.99
    stay_share: float = 0.985
    # What windows may reach once a visit fills them, and when a chosen mode begins: past readings are known, and the
    # level follows from more of them.
    last_share: float = 0.998
    # How long a visit lasts before readings can end it: two or three readings, a decision, and the writes.
    reaction_s: float = 0.6
    # How long a level goes on after the decision to leave it.
    leave_s: float = 0.4
    # Readings from which the present level and its slope are taken.
    trend_readings: int = 5
    # The same of a visit that fills the window.
    lasting_readings: int = 20
    # A mode may be tried although it is more likely above the limit than below: the ledger ends the visit.
    risk: float = 0.65
    # Standard deviations above its expected power at which a mode must stay below the cap of a short visit, or below
    # the limit itself; and those with which a visit is planned.
    cap_sigmas: float = 3.0
    limit_sigmas: float = 2.7
    plan_sigmas: float = 2.0
    # What a mode must keep in the ranking and in the choice.
    choice_share: float = 0.995
    # How likely a candidate for the choice may break that (None: as the problem's risk says). Where each is held before
    # it runs, one that is as likely as not is worth the hold.
    choice_risk: float | None = None
    # A visit ends after this long once its settled power is above that beyond doubt: the mode can't be chosen.
    hopeless_s: float = 1.0
    hopeless_sigmas: float = 2.0
    # A visit that the ledger ended early counts so much of a whole one.
    early_cost: float = 0.4
    # A chosen mode is held this long before it counts; the next best follows if it fails, so many times.
    confirm_s: float = 14.0
    confirm_tries: int = 5
    # Thousands of windows follow a choice, and the highest of their means counts: so many standard deviations of a
    # window's mean lie between the limit and the mean of the held mode.
    confirm_sigmas: float = 4.0
    # Lags of the power behind a change of clocks (seconds): those believed possible, and those that the cap of a short
    # visit must survive.
    # How far readings lie beside the course of a first-order lag, as a share of the rise.
    ramp_error: float = 0.0
    # How much earlier a ramp may have begun than the change was noted (later, if negative): clocks are written one
    # after the other, and sensors report late.
    starts_s: tuple[float, ...] = (0.0,)
    lags_s: tuple[float, ...] = (0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 1.8, 2.1)
    plan_lags_s: tuple[float, ...] = (0.3, 0.6, 1.2, 2.0)

    # Distance that an unsteady load asks for besides: a share of the limit.
    margin: float = 0.0

    @property
    def window(self) -> int:
        """Return how many readings a window holds."""
        return max(1, round(self.window_s / self.period_s))

    def readings(self, seconds: float) -> int:
        """Return how many readings arrive in so many seconds."""
        return max(1, round(seconds / self.period_s))

    def limit_w(self, limit_w: float) -> float:
        """Return what is left of a limit with the margin taken off."""
        return (1.0 - self.margin) * limit_w

    def confirm_share(self, noise: float, windows: float | None = None) -> float:
        """Return what share of the limit a held mode may take when single readings scatter by `noise` (relative).

        `windows` is how many of them follow; the highest of their means is above the limit once in ten such runs.
        """
        sigmas = self.confirm_sigmas
        if windows is not None:
            sigmas = NormalDist().inv_cdf(1.0 - BREAKING_RUNS / max(1.0, windows))
        return 1.0 - sigmas * noise / math.sqrt(self.window)


NORMAL = MeanRules()
