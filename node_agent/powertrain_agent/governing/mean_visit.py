"""MeanVisit: the part of a visit that a ledger decides: when it may begin, and when it must end."""

from __future__ import annotations

from dataclasses import dataclass, field

from powertrain import PowerMode
from powertrain.exploring import SettledPower, Verdict, Visit
from powertrain.exploring.rules import CALM_ABOVE_REST, CALM_SHARE
from powertrain_agent.governing.mean_watch import SURE_SIGMAS, MeanWatch

REASONS = {
    Verdict.LEAVE: "left before a window would exceed the limit",
    Verdict.HOPELESS: "left because its power settles above what can be chosen",
}


@dataclass(frozen=True)
class Hold:
    """How long a mode is held before it may run for good, and how many windows follow then."""

    seconds: float
    windows: float


@dataclass
class MeanVisit:
    """Under which terms a ledger lets a mode be visited, and what it has read there."""

    watch: MeanWatch
    rest: PowerMode | None
    rest_w: float
    upper_w: float  # what the mode draws at most, as far as is known
    hold: Hold | None = None
    _visit: Visit | None = field(default=None)

    @property
    def has_room(self) -> bool:
        """Say whether the mode may be set now.

        One that may be close to the limit begins from a lower level: while its window fills, noise then ends no visit.
        """
        ledgers = self.watch.ledgers
        calm_w = max(CALM_SHARE * ledgers.limit_w, CALM_ABOVE_REST * self.rest_w)
        if self.upper_w > ledgers.rules.stay_share * ledgers.limit_w and ledgers.level_w > calm_w:
            return False
        return self.watch.has_room(self.upper_w, self.rest_w)

    def begin(self) -> None:
        """Note that the mode was set."""
        self._visit = self.watch.visit(self.rest_w)

    def power(self, watts: float, periods: int, age_s: float) -> str | None:
        """Take a reading that stands for so many periods; say why the mode must be left, if it must.

        `age_s` is the time since the mode was set.
        """
        assert self._visit is not None
        for _ in range(periods):
            verdict = self._visit.judge(watts, age_s)
            if verdict is not Verdict.STAY:
                return REASONS[verdict]
        return None

    def settled_power(self) -> SettledPower:
        """Return where the power settles, as far as it was read."""
        assert self._visit is not None
        return self._visit.settled_power()

    def end(self, step_s: float | None = None) -> SettledPower:
        """Return where the power settles, and learn lag, noise and swing from the visit; `step_s` where it is known."""
        assert self._visit is not None
        return self._visit.end(step_s)

    @property
    def flat(self) -> list[float]:
        """Return the readings after the ramp."""
        assert self._visit is not None
        return [float(watts) for watts in self._visit.flat]

    def is_held(self, waited_s: float) -> bool:
        """Say whether the mode was held for long enough: to the end, or until its power is beyond doubt."""
        if self.hold is None or waited_s >= self.hold.seconds:
            return True
        assert self._visit is not None
        sure = len(self._visit.flat) >= self.watch.ledgers.rules.window
        return sure and self._visit.keeps(SURE_SIGMAS, self.hold.windows)

    def keeps(self) -> bool | None:
        """Say whether a held mode may run for good; None for a mode that was only visited."""
        if self.hold is None:
            return None
        assert self._visit is not None
        return self._visit.keeps(0.0, self.hold.windows)
