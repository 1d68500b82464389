"""Replay: a profiling session under a mean limit against a lagging board, through the agent's own ledger and visits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from powertrain.evaluation.lagging_board import LaggingBoard
from powertrain.evaluation.scores import WindowsAbove
from powertrain.exploring import (
    LagBelief,
    Ledger,
    LoadFinding,
    LoadWatch,
    ReadingNoise,
    SettledPower,
    Verdict,
    Visit,
)
from powertrain.exploring.rules import CALM_ABOVE_REST, CALM_SHARE
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain.samples import Sample
from powertrain.session import Ask, Done, ProfilingSession

# A mode is timed by this many steps, but never for less than the shortest visit or longer than for forty.
TIMED_STEPS, FEWEST_STEPS, MOST_STEPS = 8, 2, 40
SHORTEST_VISIT_S = DEFAULT_WINDOW_S
# The first step after a change is dropped.
DROPPED_STEPS = 1
# How long a chosen mode runs on, so that windows after the choice can be counted.
AFTER_S = 20.0
# Visits at most, whole or not: a session whose every visit is left early ends all the same.
MOST_VISITS = 60


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay came to: the row that runs in the end, rows in the order of their visits, and what it cost."""

    row: int
    visited: tuple[int, ...]
    left_early: int
    board_seconds: float
    windows: WindowsAbove


class Replay:
    """Drives one session: rests until a visit fits, visits, tells, and at the end confirms the choice."""

    def __init__(self, session: ProfilingSession, board: LaggingBoard, seed: int) -> None:
        limit_w, rules = session.problem.explore_limit_w, session.problem.ledger_rules
        if limit_w is None or rules is None:
            raise ValueError("a replay needs an exploration limit and the rules of a ledger")
        self._session, self._board, self._seed = session, board, seed
        self._limit_w, self._rules, self._base = limit_w, rules, rules
        self._ledger, self._lag, self._noise = Ledger(limit_w, rules), LagBelief(rules), ReadingNoise()
        self._watch, self._finding = LoadWatch(rules), LoadFinding()
        self._visited: list[int] = []
        self._left_early = 0

    def run(self) -> Replayed:
        """Explore, confirm, and run the choice for a while."""
        while len(self._visited) < MOST_VISITS and not isinstance(answer := self._session.ask(), Done):
            self._visit(answer)
        row = self._confirm()
        chosen_at = self._board.ticks
        self._board.apply(row)
        self._pass(self._rules.readings(AFTER_S))
        seconds = chosen_at * self._rules.period_s
        windows = self._board.windows_above(self._limit_w, chosen_at)
        return Replayed(row, tuple(self._visited), self._left_early, seconds, windows)

    def _visit(self, ask: Ask) -> None:
        row = self._row(ask)
        if not self._visited:
            self._board.apply(row)
            self._pass(self._rules.window)
        self._visited.append(row)
        if ask.power_w is not None and ask.power_std_w is not None:
            upper_w = ask.power_w + self._rules.plan_sigmas * ask.power_std_w
            if not self._wait_for_room(upper_w):
                self._session.tell_failed(ask.mode, "no window has room for it, even after a rest")
                return
        visit, verdict = self._hold(row, self._duration(row))
        early = verdict is not Verdict.STAY
        self._left_early += early
        self._tell(row, self._end(row, visit), len(visit), early)
        if early:
            self._rest()

    def _end(self, row: int, visit: Visit) -> SettledPower:
        """End a visit; the rules follow what it showed of the noise and the load."""
        power = visit.end(float(self._board.board.truth.step_s[row]))
        if self._watch.finding != self._finding:
            self._finding = self._watch.finding
            self._rules = self._finding.applied_to(self._base)
            recent = self._ledger.recent
            self._ledger = Ledger(self._limit_w, self._rules)
            for watts in recent:
                self._ledger.add(float(watts))
        share = min(self._base.choice_share, self._rules.confirm_share(self._noise.relative))
        problem = self._session.problem
        self._session.problem = replace(problem, rules=replace(self._rules, choice_share=share))
        return power

    def _row(self, ask: Ask) -> int:
        return self._board.board.space.index(ask.mode)

    def _duration(self, row: int) -> int:
        """Return how many readings a whole visit lasts."""
        step_s = float(self._board.board.truth.step_s[row])
        steps = min(MOST_STEPS, max(TIMED_STEPS, SHORTEST_VISIT_S / step_s)) + DROPPED_STEPS
        return self._rules.readings(max(SHORTEST_VISIT_S, steps * step_s))

    def _hold(self, row: int, readings: int) -> tuple[Visit, Verdict]:
        visit = Visit(self._ledger, self._lag, self._noise, self._rest_w, self._watch)
        self._board.apply(row)
        verdict = Verdict.STAY
        while verdict is Verdict.STAY and len(visit) < readings:
            verdict = visit.reading(self._board.tick())
        return visit, verdict

    def _tell(self, row: int, steady: SettledPower, readings: int, early: bool) -> None:
        board = self._board.board
        mode, step_s = board.space[row], float(board.truth.step_s[row])
        steps = int(readings * self._rules.period_s / step_s) - DROPPED_STEPS
        power_noise = steady.std_w / steady.watts
        if steps < FEWEST_STEPS:
            self._session.tell_power(mode, steady.watts, power_noise)
            return
        measured = board.measure(mode, self._seed)
        time_noise = board.noise * max(1.0, (TIMED_STEPS / steps) ** 0.5)
        sample = Sample(mode, measured.step_s, steady.watts, measured.batch_size)
        self._session.tell(sample, time_noise, power_noise, left_early=early)

    def _confirm(self) -> int:
        """Hold the fastest candidates in turn until one proves itself; return the row that runs from then on."""
        for _ in range(self._rules.confirm_tries):
            choice = self._session.choose()
            if choice.row is None:
                break
            if self._wait_for_room(float(self._expected_w(choice.row))) and self._proves_itself(choice.row):
                return choice.row
            mode = self._board.board.space[choice.row]
            self._session.tell_failed(mode, "did not keep the limit while it was held")
        self._rest()
        return self._board.row

    def _expected_w(self, row: int) -> float:
        history = self._session.history
        return float(history.power_w[list(history.rows).index(row)])

    def _proves_itself(self, row: int) -> bool:
        visit, verdict = self._hold(row, self._rules.readings(self._rules.confirm_s))
        self._end(row, visit)
        if verdict is Verdict.STAY and visit.keeps():
            return True
        self._rest()
        return False

    @property
    def _rest_w(self) -> float:
        powers = self._session.history.power_w
        return float(powers.min()) if len(powers) else self._ledger.level_w

    def _rest(self) -> None:
        history = self._session.history
        if len(history.modes):
            self._board.apply(int(history.rows[int(history.power_w.argmin())]))

    def _wait_for_room(self, upper_w: float) -> bool:
        """Stay in the rest mode until a visit fits: a window and the slowest way down are enough, or it never does."""
        patience = self._rules.readings(2 * self._rules.window_s + 4 * self._lag.slow_s)
        for waited in range(patience):
            if self._is_calm(upper_w) and self._ledger.has_room(upper_w, self._rest_w, self._lag.likely_s):
                return True
            if not waited:
                self._rest()
            self._pass(1)
        return False

    def _is_calm(self, upper_w: float) -> bool:
        """Say whether a visit that may come close to the limit begins from a lower level, as the agent's do.

        A window that is full already leaves no time to react where a prediction is far from the truth.
        """
        if upper_w <= self._rules.stay_share * self._ledger.limit_w:
            return True
        return self._ledger.level_w <= max(CALM_SHARE * self._ledger.limit_w, CALM_ABOVE_REST * self._rest_w)

    def _pass(self, ticks: int) -> None:
        for _ in range(ticks):
            self._ledger.add(self._board.tick())
