"""Scores plans for several batch sizes: time and energy to accuracy, peak power, what profiling took and broke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from powertrain.batching import BatchTable, Relation, choose_batch
from powertrain.batching.plans import PLANS, PROFILING, Assignment, Outcome
from powertrain.evaluation.evaluate import EvaluationError
from powertrain.objectives import Limits, Objective, PowerStatistic
from powertrain.strategies.base import HasPhysics

FASTEST = "fastest"


@dataclass(frozen=True)
class Target:
    """A training: how many samples each batch size needs until the target accuracy, and r as the proxy gave it."""

    needed: Mapping[int, float]
    proxy: Relation

    @property
    def relation(self) -> Relation:
        """Return the target's own relation, which only the bound may use."""
        return Relation.measured({size: [samples] for size, samples in self.needed.items()})


@dataclass(frozen=True, slots=True)
class PlanScore:
    """What one plan under one limit came to. Seconds and joules are those until the accuracy is reached."""

    plan: str
    limit_w: float | None
    measured: int
    profiled_over_limit: int
    profiling_minutes: float
    batch_size: int | None = None  # from here on None where nothing keeps the limit
    mode: str | None = None
    time_s: float | None = None
    energy_j: float | None = None
    peak_w: float | None = None
    over_limit: bool = False
    over_fastest_pct: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return asdict(self)


def score_plans(
    truth: BatchTable,
    target: Target,
    limit_w: float | None,
    worst_case_column: int,
    plans: Sequence[str] = tuple(PLANS),
    reference: HasPhysics | None = None,
    objective: Objective = Objective.MIN_TIME,
    seed: int = 0,
) -> list[PlanScore]:
    """Run plans under one limit (None: no limit) and score them against the fastest configuration of the target."""
    unknown = [name for name in plans if name not in PLANS]
    if unknown:
        raise EvaluationError(f"unknown plans {unknown}; known: {', '.join(PLANS)}")
    lacking = [size for size in truth.batch_sizes if size not in target.needed]
    if lacking:
        raise EvaluationError(f"the target does not say how many samples the batch sizes {lacking} need")
    outcomes = {}
    for name in dict.fromkeys((*plans, FASTEST)):
        relation = target.relation if name == FASTEST else target.proxy
        assignment = Assignment(relation, limit_w, worst_case_column, objective, reference, seed)
        outcomes[name] = PLANS[name](truth, assignment)
    bound_s = _time_s(truth, target, outcomes[FASTEST])
    return [_score(name, truth, target, limit_w, outcomes[name], bound_s) for name in plans]


def proxy_matrix(
    truth: BatchTable, studies: Mapping[str, Mapping[int, float]], limits_w: Sequence[float | None]
) -> dict[float | None, dict[str, dict[str, float]]]:
    """Return, per limit, proxy and target, by how many % the choice by the proxy's r is over the fastest configuration.

    A study chooses among the sizes that it has trained. NaN where nothing keeps the limit, infinite where the proxy's
    choice was never trained on the target, or did not reach its accuracy.
    """
    relations = {
        name: Relation.measured({b: [n] for b, n in samples_needed.items()}) for name, samples_needed in studies.items()
    }
    matrix: dict[float | None, dict[str, dict[str, float]]] = {}
    own = {
        name: [p for p in truth.profiles() if p.batch_size in samples_needed]
        for name, samples_needed in studies.items()
    }
    lacking = [name for name, profiles in own.items() if not profiles]
    if lacking:
        raise EvaluationError(f"the table has no batch size of {lacking}; it has {list(truth.batch_sizes)}")
    for limit_w in limits_w:
        limits = Limits(power_w=limit_w, power_statistic=PowerStatistic.PEAK)
        choices = {name: choose_batch(own[name], relations[name], limits=limits).best for name in studies}
        matrix[limit_w] = {proxy: {} for proxy in studies}
        for proxy in studies:
            for target, samples_needed in studies.items():
                choice, best = choices[proxy], choices[target]
                if choice is None or best is None:
                    matrix[limit_w][proxy][target] = float("nan")
                    continue
                bound = best.sample_s * samples_needed[best.batch_size]
                time = choice.sample_s * samples_needed.get(choice.batch_size, np.inf)
                matrix[limit_w][proxy][target] = (time / bound - 1.0) * 100
    return matrix


def _time_s(truth: BatchTable, target: Target, outcome: Outcome) -> float | None:
    if outcome.batch_size is None or outcome.column is None:
        return None
    step_s = float(truth.step_s[truth.row(outcome.batch_size), outcome.column])
    return step_s / outcome.batch_size * target.needed[outcome.batch_size]


def _score(
    name: str, truth: BatchTable, target: Target, limit_w: float | None, outcome: Outcome, bound_s: float | None
) -> PlanScore:
    time_s, limit = _time_s(truth, target, outcome), np.inf if limit_w is None else limit_w
    rows = [(truth.row(size), column) for size, column in outcome.measured]
    seconds = sum(float(PROFILING.seconds(float(truth.step_s[at]))) for at in rows)
    score = PlanScore(
        plan=name,
        limit_w=limit_w,
        measured=len(rows),
        profiled_over_limit=sum(bool(truth.peak_w[at] > limit) for at in rows),
        profiling_minutes=seconds / 60,
    )
    if time_s is None or outcome.batch_size is None or outcome.column is None:
        return score
    at = (truth.row(outcome.batch_size), outcome.column)
    return replace(
        score,
        batch_size=outcome.batch_size,
        mode=str(truth.mode(outcome.column)),
        time_s=time_s,
        energy_j=time_s * float(truth.power_w[at]),
        peak_w=float(truth.peak_w[at]),
        over_limit=bool(truth.peak_w[at] > limit),
        over_fastest_pct=None if bound_s is None else (time_s / bound_s - 1.0) * 100,
    )
