"""Runs: replays profiling sessions against a measured table and scores what they would have done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from powertrain.evaluation.board import Board
from powertrain.evaluation.lagging_board import LaggingBoard, SensorSettings
from powertrain.evaluation.plausibility import plausible_against_physics
from powertrain.evaluation.replay import Replay, Replayed
from powertrain.evaluation.scores import BudgetScore, Score, WindowsAbove, budget_score, prediction_score
from powertrain.exploring import NORMAL
from powertrain.modes import PowerMode
from powertrain.objectives import Limits
from powertrain.profiling import Aim, Problem
from powertrain.profiling.history import History, ModeReport
from powertrain.profiling.problem import Cost
from powertrain.session import Done, ProfilingSession
from powertrain.space import BoolArray
from powertrain.strategies import is_cautious
from powertrain.strategies.base import HasPhysics

# The papers' strategies choose by the predicted or measured mean: a risk of one half says just that.
RISK_BY_THE_MEAN = 0.5


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run does beside profiling: budgets to choose under, in-flight checks, what is scored."""

    aim: Aim
    budgets_w: tuple[float, ...]
    checks: int
    within_budget: bool
    validate_all: bool
    device: str | None = None
    risk: float = 0.05
    prior_width: float = 1.0
    steps: int = 40
    # How readings come about in a replay under a mean limit; None: no replay, every mode is known to be safe or not
    # tried (the cautious rules).
    sensor: SensorSettings | None = None


def run(
    strategy: str, board: Board, reference: HasPhysics | None, counts: Sequence[int], seed: int, settings: RunSettings
) -> dict[int, Score]:
    """Return the score of one strategy and seed at each number of modes."""
    if settings.within_budget and settings.sensor is not None and is_cautious(strategy):
        return _run_replays(strategy, board, reference, counts, seed, settings, settings.sensor)
    if settings.aim is Aim.BUDGET or settings.within_budget:
        return _run_per_budget(strategy, board, reference, counts, seed, settings)
    problem = _problem(strategy, board, seed, settings, None)
    scores = {}
    session = ProfilingSession(problem, strategy, reference, filtered=is_cautious(strategy))
    for count, asked_rows in _profile(session, board, counts, seed):
        scores[count] = _score(session, board, asked_rows, seed, settings)
    return scores


def _run_per_budget(
    strategy: str, board: Board, reference: HasPhysics | None, counts: Sequence[int], seed: int, settings: RunSettings
) -> dict[int, Score]:
    """Profile once for each budget and merge what came out."""
    collected: dict[int, list[Score]] = {count: [] for count in counts}
    for budget in settings.budgets_w:
        problem = _problem(strategy, board, seed, settings, budget)
        session = ProfilingSession(problem, strategy, reference, filtered=is_cautious(strategy))
        one = replace(settings, budgets_w=(budget,))
        for count, asked_rows in _profile(session, board, counts, seed):
            score = _score(session, board, asked_rows, seed, one)
            excess = tuple(float(board.truth.power_w[row]) - budget for row in asked_rows)
            collected[count].append(replace(score, profiled_excess_w=excess))
    return {count: _merged(scores) for count, scores in collected.items()}


def _run_replays(
    strategy: str,
    board: Board,
    reference: HasPhysics | None,
    counts: Sequence[int],
    seed: int,
    settings: RunSettings,
    sensor: SensorSettings,
) -> dict[int, Score]:
    """Replay a session for each budget and each number of modes, and merge what came out."""
    plausible = plausible_against_physics(board.truth, reference)
    rules = replace(NORMAL, period_s=sensor.period_s)
    # Each budget has a session of its own, so no session has to learn a whole front.
    settings = replace(settings, aim=Aim.BUDGET if settings.aim is Aim.FRONT else settings.aim)
    collected: dict[int, list[Score]] = {count: [] for count in counts}
    for budget in settings.budgets_w:
        for count in counts:
            problem = replace(_problem(strategy, board, seed, settings, budget), max_modes=count, rules=rules)
            session = ProfilingSession(problem, strategy, reference)
            lagging = LaggingBoard(board, sensor, rules, (seed, round(budget * 1000)))
            replayed = Replay(session, lagging, seed).run()
            collected[count].append(_replay_score(session, board, replayed, budget, plausible, settings))
    return {count: _merged(scores) for count, scores in collected.items()}


def _replay_score(
    session: ProfilingSession,
    board: Board,
    replayed: Replayed,
    budget_w: float,
    plausible: BoolArray,
    settings: RunSettings,
) -> Score:
    visited = list(dict.fromkeys(replayed.visited))
    return replace(
        _prediction_figures(session, board, visited, settings.validate_all),
        budgets=(budget_score(board.truth, replayed.row, budget_w, plausible),),
        profiled_excess_w=tuple(float(board.truth.power_w[row]) - budget_w for row in visited),
        profiling_minutes=replayed.board_seconds / 60,
        modes=len(visited),
        windows=replayed.windows,
        visits=len(replayed.visited),
        board_seconds=replayed.board_seconds,
    )


def _problem(strategy: str, board: Board, seed: int, settings: RunSettings, budget_w: float | None) -> Problem:
    return Problem(
        space=board.space,
        aim=settings.aim,
        limits=Limits(power_w=budget_w),
        risk=settings.risk if is_cautious(strategy) else RISK_BY_THE_MEAN,
        explore_limit_w=budget_w if settings.within_budget else None,
        min_gain=0.0,
        noise=board.noise,
        device=settings.device,
        seed=seed,
        cost=Cost(steps=settings.steps),
        prior_width=settings.prior_width,
    )


def _profile(
    session: ProfilingSession, board: Board, counts: Sequence[int], seed: int
) -> Iterator[tuple[int, list[int]]]:
    """Measure modes as the session asks, and stop at each count with the rows so far. A session that ends early
    stands for the rest.
    """
    asked_rows: list[int] = []
    for count in sorted(counts):
        session.problem = replace(session.problem, max_modes=count)
        while not isinstance(answer := session.ask(), Done):
            asked_rows.append(board.space.index(answer.mode))
            session.tell(board.measure(answer.mode, seed))
        yield count, list(asked_rows)


def _score(session: ProfilingSession, board: Board, asked_rows: list[int], seed: int, settings: RunSettings) -> Score:
    """Return the score of what a session knows. A copy is asked, which fits once for prediction and choices."""
    fresh = ProfilingSession.from_dict(session.to_dict(), session.reference)
    figures = _prediction_figures(fresh, board, asked_rows, settings.validate_all)
    minutes = float(np.sum(np.asarray(session.problem.cost.seconds(board.truth.step_s[asked_rows])))) / 60
    return replace(
        figures,
        budgets=_choices(fresh, board, settings.budgets_w, seed, settings.checks),
        profiling_minutes=minutes,
        modes=len(asked_rows),
    )


def _prediction_figures(session: ProfilingSession, board: Board, asked_rows: list[int], validate_all: bool) -> Score:
    """Return the errors of a session's prediction on modes that were not asked for (and on all), and its CPU time."""
    start_s = time.process_time()
    prediction = session.predict()
    elapsed_ms = (time.process_time() - start_s) * 1e3
    if prediction is None:
        return Score()
    everything = np.ones(len(board.space), dtype=np.bool_)
    scored = everything.copy()
    if not validate_all and len(asked_rows) < len(board.space):
        scored[asked_rows] = False
    overall = prediction_score(prediction, board.truth, everything)
    return replace(
        prediction_score(prediction, board.truth, scored),
        fit_predict_ms=elapsed_ms,
        all_time_pct=overall.mape_time_pct,
        all_power_pct=overall.mape_power_pct,
    )


def _choices(
    session: ProfilingSession, board: Board, budgets_w: Sequence[float], seed: int, checks: int
) -> tuple[BudgetScore, ...]:
    """Return the score of the choice under each budget, after that budget's own in-flight checks.

    Budgets that ask for the same checks know the same, so they share the fits: those are what choosing costs.
    """
    groups: list[tuple[History, Sequence[float]]] = [(session.history, budgets_w)]
    scores: dict[float, BudgetScore] = {}
    for checks_left in reversed(range(checks + 1)):
        further: list[tuple[History, Sequence[float]]] = []
        for history, budgets in groups:
            session.history = history
            budgets_of_mode: dict[PowerMode, list[float]] = {}
            for budget_w in budgets:
                answer = session.ask_check(Limits(power_w=budget_w)) if checks_left else Done("no further check")
                if isinstance(answer, Done):
                    scores[budget_w] = _choose(session, board, budget_w)
                else:
                    budgets_of_mode.setdefault(answer.mode, []).append(budget_w)
            for mode, group in budgets_of_mode.items():
                further.append((history.add(ModeReport(mode, mode, board.measure(mode, seed))), group))
        groups = further
    return tuple(scores[budget_w] for budget_w in budgets_w)


def _choose(session: ProfilingSession, board: Board, budget_w: float) -> BudgetScore:
    choice = session.choose(Limits(power_w=budget_w))
    if choice.row is not None:
        return budget_score(board.truth, choice.row, budget_w)
    # Nothing is known of any mode: the board stays at its lowest, which is the first row.
    fallback_row = choice.closest.row if choice.closest is not None else 0
    return budget_score(board.truth, fallback_row, budget_w)


def _merged(scores: list[Score]) -> Score:
    """Return the runs of one seed over all budgets as one: figures by their mean, lists joined."""

    def mean(name: str) -> float | None:
        values = [v for v in (getattr(score, name) for score in scores) if v is not None]
        return float(np.mean(values)) if values else None

    replays = any(score.windows is not None for score in scores)
    return Score(
        mape_time_pct=mean("mape_time_pct"),
        mape_power_pct=mean("mape_power_pct"),
        time_95=mean("time_95"),
        power_95=mean("power_95"),
        budgets=tuple(b for score in scores for b in score.budgets),
        profiled_excess_w=tuple(w for score in scores for w in score.profiled_excess_w),
        profiling_minutes=mean("profiling_minutes") or 0.0,
        fit_predict_ms=mean("fit_predict_ms"),
        modes=round(mean("modes") or 0),
        all_time_pct=mean("all_time_pct"),
        all_power_pct=mean("all_power_pct"),
        windows=sum((s.windows for s in scores if s.windows is not None), WindowsAbove()) if replays else None,
        visits=round(mean("visits") or 0) if replays else None,
        board_seconds=mean("board_seconds"),
    )
