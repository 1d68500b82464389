"""Visit: one mode under the ledger, reading by reading; and whether a held mode may run for good."""

from __future__ import annotations

from enum import Enum, auto

import numpy as np

from powertrain.exploring.lag import LagBelief, SettledPower
from powertrain.exploring.ledger import Ledger, highest_mean
from powertrain.exploring.ledgers import Ledgers
from powertrain.exploring.noise import ReadingNoise
from powertrain.exploring.swing import LoadWatch
from powertrain.space import FloatArray

# A ramp has settled after so many lags.
SETTLED_LAGS = 4.0


class Verdict(Enum):
    """What a reading means for the visit: go on, leave before a window breaks, or leave because the mode can't win."""

    STAY = auto()
    LEAVE = auto()
    HOPELESS = auto()


class Visit:
    """Watches a mode from the moment it was applied, entered from the ledger's present level."""

    def __init__(
        self,
        ledger: Ledger | Ledgers,
        lag: LagBelief,
        noise: ReadingNoise,
        rest_w: float,
        watch: LoadWatch | None = None,
    ) -> None:
        self._ledger, self._lag, self._noise, self._watch = ledger, lag, noise, watch
        self._before_w, self._rest_w = ledger.level_w, rest_w
        self._readings: list[float] = []
        self._first_s: float | None = None

    def reading(self, watts: float) -> Verdict:
        """Record a reading and say whether the visit may go on."""
        self._ledger.add(watts)
        return self.judge(watts)

    def judge(self, watts: float, age_s: float | None = None) -> Verdict:
        """Say whether the visit may go on after a reading that the ledger has recorded already.

        `age_s` is how long after the change of mode it was taken; of the first reading it counts.
        """
        self._first_s = self._first_s if self._readings else age_s
        self._readings.append(watts)
        rules = self._ledger.rules
        if self._ledger.must_leave(self._rest_w, self._lag.slow_s, len(self) > rules.window):
            return Verdict.LEAVE
        if len(self) < rules.readings(rules.hopeless_s):
            return Verdict.STAY
        power = self.settled_power()
        least_w = power.watts - rules.hopeless_sigmas * power.std_w
        return Verdict.HOPELESS if least_w > rules.choice_share * self._ledger.limit_w else Verdict.STAY

    def __len__(self) -> int:
        return len(self._readings)

    def settled_power(self) -> SettledPower:
        """Return where the power settles, as far as the readings so far tell."""
        return self._lag.settled_power(self._before_w, np.array(self._readings), self._noise.relative, self._first_s)

    def end(self, step_s: float | None = None) -> SettledPower:
        """Return where the power settles; the beliefs about lag, noise and the load learn from the visit.

        `step_s` is the time of a step in this mode, if known: it tells phases within a step from a load that pulses.
        """
        power, ramp = self.settled_power(), np.array(self._readings)
        self._lag.learn(self._before_w, ramp, self._noise.relative, self._first_s)
        self._noise.learn(self.flat)
        if self._watch is not None:
            self._watch.learn_change(self._before_w, ramp, self._noise.relative)
            self._watch.learn_stretch(ramp[self._ledger.rules.readings(SETTLED_LAGS * self._lag.slow_s) :], step_s)
        return power

    def keeps(self, sigmas: float = 1.0, windows: float | None = None) -> bool:
        """Say whether a mode that was held to the end of its confirmation may run for good.

        Its mean keeps the distance that follows from the noise (and from how many windows follow), and no window of the
        hold came above the limit. `sigmas` says how sure the mean must be: more of them may end a confirmation early.
        """
        rules, limit_w = self._ledger.rules, self._ledger.limit_w
        power, flat = self.settled_power(), self.flat
        noise = self._noise.of(flat)
        if power.watts + sigmas * power.std_w > rules.confirm_share(noise, windows) * limit_w:
            return False
        if len(flat) < rules.window:
            return True
        return highest_mean(flat[: rules.window - 1], flat[rules.window - 1 :], rules.window) <= limit_w

    @property
    def flat(self) -> FloatArray:
        """Return the readings after the ramp."""
        return np.array(self._readings[self._ledger.rules.readings(SETTLED_LAGS * self._lag.quantile_s(0.5)) :])
