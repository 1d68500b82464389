"""Ledgers: several mean limits, each over a window of its own, that share their readings."""

from __future__ import annotations

from collections.abc import Sequence

from powertrain.exploring.ledger import Ledger
from powertrain.exploring.rules import MeanRules


class Ledgers:
    """Answers the questions of a Ledger for all of them: what one forbids is forbidden."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        if not ledgers:
            raise ValueError("at least one ledger is needed")
        self._all = tuple(ledgers)

    def replace(self, ledgers: Sequence[Ledger]) -> None:
        """Go on with other limits; who holds this object asks the new ones."""
        self._all = tuple(ledgers)

    def add(self, watts: float) -> None:
        """Record one reading in all."""
        for ledger in self._all:
            ledger.add(watts)

    @property
    def _tightest(self) -> Ledger:
        return min(self._all, key=lambda ledger: (ledger.limit_w, ledger.rules.window_s))

    @property
    def limit_w(self) -> float:
        """Return the lowest limit."""
        return self._tightest.limit_w

    @property
    def rules(self) -> MeanRules:
        """Return the rules of the lowest limit."""
        return self._tightest.rules

    @property
    def level_w(self) -> float:
        """Return the level at the last reading."""
        return self._tightest.level_w

    def has_room(self, upper_w: float, rest_w: float, lags_s: Sequence[float]) -> bool:
        """Say whether every window has room for a visit."""
        return all(ledger.has_room(upper_w, rest_w, lags_s) for ledger in self._all)

    def can_last(self, level_w: float, lags_s: Sequence[float]) -> bool:
        """Say whether a mode may begin and stay by every window."""
        return all(ledger.can_last(level_w, lags_s) for ledger in self._all)

    def must_leave(self, rest_w: float, lag_s: float, lasting: bool = False) -> bool:
        """Say whether any window would break."""
        return any(ledger.must_leave(rest_w, lag_s, lasting) for ledger in self._all)
