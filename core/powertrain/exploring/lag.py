"""LagBelief: how fast the power follows a change of clocks, learned from every change of a session."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from powertrain.exploring.rules import NORMAL, MeanRules
from powertrain.space import FloatArray

# Share of what lies beyond the last readings that counts as an error of its own: no lag is exactly first-order.
EXTRAPOLATION_ERROR = 0.1
# No single ramp rules a lag out for good.
LEAST_WEIGHT = 0.003
# A ramp that moved less than so many standard deviations of its mean teaches nothing about the lag.
CLEAR_RAMP = 5.0
# A few noisy readings can point anywhere: a settled power lies within these factors of the readings themselves.
LEAST_REACH, MOST_REACH = 0.3, 5.0


@dataclass(frozen=True, slots=True)
class SettledPower:
    """Where the power of a mode settles, as far as its ramp tells, with the standard deviation of that."""

    watts: float
    std_w: float


class LagBelief:
    """Weights over a grid of lags. Each ramp tells where the power settles, and teaches the lag."""

    def __init__(self, rules: MeanRules = NORMAL) -> None:
        self._rules = rules
        self._lags = np.array(rules.lags_s)
        self._believe(np.full(len(self._lags), 1.0 / len(self._lags)))

    @property
    def lags_s(self) -> tuple[float, ...]:
        """Return the lags that are believed possible."""
        return self._rules.lags_s

    def quantile_s(self, probability: float) -> float:
        """Return the lag that the true one is at most, with this probability."""
        return float(self._lags[self._place(probability)])

    def _place(self, probability: float) -> int:
        return int(np.searchsorted(self._cumulative, probability * (1.0 - 1e-9)))

    def _believe(self, weights: FloatArray) -> None:
        self._weights, self._cumulative = weights, np.cumsum(weights)

    @property
    def likely_s(self) -> tuple[float, float, float]:
        """Return a fast, a middle and a slow lag, which a plan must survive."""
        return float(self._lags[max(0, self._place(0.05) - 1)]), self.quantile_s(0.5), self.slow_s

    @property
    def slow_s(self) -> float:
        """Return how slow the power may come down: a step of the grid beyond what is believed."""
        return float(self._lags[min(len(self._lags) - 1, self._place(0.95) + 1)])

    def settled_power(
        self, before_w: float, ramp: FloatArray, noise: float, first_s: float | None = None
    ) -> SettledPower:
        """Return where a ramp leads that started from a level: by least squares for each lag, by weight over them.

        `first_s` is how long after the change its first reading was taken; a period, if nothing else is known.
        """
        levels, spreads, log_likelihood = self._fits(before_w, ramp, noise, first_s)
        weights = self._posterior(log_likelihood)
        watts = float(weights @ levels)
        variance = float(weights @ (spreads**2 + (levels - watts) ** 2))
        beyond = watts - float(ramp[-3:].mean())
        slack = EXTRAPOLATION_ERROR * beyond if abs(beyond) > 2.0 * noise * watts else 0.0
        return SettledPower(watts, float(np.hypot(np.sqrt(variance), slack)))

    def learn(self, before_w: float, ramp: FloatArray, noise: float, first_s: float | None = None) -> None:
        """Learn the lag from a whole ramp."""
        if len(ramp) < 3 or abs(float(ramp[-3:].mean()) - before_w) < CLEAR_RAMP * noise * before_w:
            return
        _, _, log_likelihood = self._fits(before_w, ramp, noise, first_s)
        by_lag = self._posterior(log_likelihood).reshape(len(self._lags), -1).sum(axis=1)
        weights = np.maximum(by_lag, LEAST_WEIGHT)
        self._believe(weights / weights.sum())

    def _posterior(self, log_likelihood: FloatArray) -> FloatArray:
        before = np.repeat(self._weights, len(log_likelihood) // len(self._lags))
        weights = before * np.exp(log_likelihood - log_likelihood.max())
        posterior: FloatArray = weights / weights.sum()
        return posterior

    def _fits(
        self, before_w: float, ramp: FloatArray, noise: float, first_s: float | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return for each lag, and each start that is possible, the settled level, its standard deviation, and the log
        of the ramp's probability.
        """
        rules = self._rules
        at = np.arange(len(ramp)) * rules.period_s + (rules.period_s if first_s is None else first_s)
        # The ramp may have begun earlier or later than the change was noted; before its start nothing moved.
        since = np.maximum(0.0, at[None, :] + np.array(rules.starts_s)[:, None])
        fading = np.exp(-since[None, :, :] / self._lags[:, None, None]).reshape(-1, len(ramp))
        share, left = 1.0 - fading, ramp[None, :] - before_w * fading
        misfit_w = rules.ramp_error * abs(float(ramp[-3:].mean()) - before_w)
        sigma, weight = float(np.hypot(noise * ramp.mean(), misfit_w)), np.maximum((share**2).sum(axis=1), 1e-9)
        levels = np.clip((share * left).sum(axis=1) / weight, LEAST_REACH * ramp.min(), MOST_REACH * ramp.max())
        errors = ((left - levels[:, None] * share) ** 2).sum(axis=1)
        return levels, sigma / np.sqrt(weight), -0.5 * errors / sigma**2
