"""The limits of a moment: what the chosen mode keeps, what tried modes keep, and what the guard keeps meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from powertrain.api.v1alpha1 import NodePolicy, SessionSpec
from powertrain.objectives import PowerStatistic
from powertrain_agent.governing.mean_watch import MeanLimitTerms
from powertrain_agent.governing.schedule import Budget
from powertrain_agent.planning.front import Ceiling


@dataclass(frozen=True)
class MomentLimits:
    """The limits of a session under a budget and a policy, while its chosen mode runs or another is tried."""

    spec: SessionSpec
    policy: NodePolicy
    budget: Budget
    hard_w: float | None  # what no single reading may exceed, by the job, the site or the supply
    is_running: bool  # a mode was chosen and is in force
    is_trying: bool

    @property
    def explore_w(self) -> float | None:
        """Return what no reading may exceed while a mode is tried: a limit of its own, or the budget of the moment.

        The limit of its own is for profiling; what is tried beside a chosen mode keeps that mode's budget.
        """
        return self._explored(self.budget.power_w)

    def _explored(self, power_w: float | None) -> float | None:
        own_w = None if self.is_running else self.spec.limits.explore_watts
        tried_w = power_w if own_w is None else least(own_w, self.budget.available_w)
        return least(tried_w, self.hard_w, self.policy.max_watts)

    @property
    def guarded_w(self) -> float | None:
        """Return the limit that the guard keeps: the budget of a chosen mode, the exploration limit of a tried one."""
        limit_w = self.budget.guarded_w
        return limit_w if self.is_running and not self.is_trying else self._explored(limit_w)

    @property
    def site_w(self) -> float | None:
        """Return what the site allows and delivers, whatever the job says."""
        return least(self.policy.max_watts, self.budget.available_w)

    @property
    def is_peak(self) -> bool:
        """Say whether the job limits single readings instead of means."""
        return self.spec.limits.power_statistic is PowerStatistic.PEAK

    @property
    def is_mean(self) -> bool:
        """Say whether means alone are limited: then a ledger can keep the limit while modes are tried."""
        return self.explore_w is not None and not self.is_peak and self.hard_w is None

    @property
    def means(self) -> tuple[MeanLimitTerms, ...]:
        """Return the limits of tried modes, each with its window; no window can be kept without power."""
        job = (self.explore_w, self.spec.limits.guard_window_seconds)
        site = (self.site_w, self.policy.guard_window_seconds)
        return tuple(MeanLimitTerms(watts, window_s) for watts, window_s in (job, site) if watts)

    @property
    def ceiling(self) -> Ceiling:
        """Return what the chosen mode has to keep."""
        return self.ceiling_of(self.budget.power_w)

    def ceiling_of(self, limit_w: float | None) -> Ceiling:
        """Return what a mode has to keep under a limit, by the job's statistic."""
        return Ceiling(limit_w, self.is_peak, self.hard_w)


def least(*watts: float | None) -> float | None:
    """Return the lowest of the limits that there are."""
    return min((w for w in watts if w is not None), default=None)


def is_raised(before_w: float | None, now_w: float | None) -> bool:
    """Say whether a limit is higher than the one before, or gone."""
    return before_w is not None and (now_w is None or now_w > before_w)


def watts(power_w: float | None) -> str:
    """Return a limit in words."""
    return "no limit" if power_w is None else f"{power_w:g} W"
