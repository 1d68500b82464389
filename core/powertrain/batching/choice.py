"""The joint choice: for each batch size its best mode under the limits, and of those the pair that reaches the target
accuracy first, or with the least energy.

Time to accuracy is (time for a sample on this board, in this mode, at this size) × (samples that this size needs). The
first does not depend on the data, the second not on the board, and of the second only the relation r between sizes is
needed. O(batch sizes × modes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from powertrain.batching.relation import Relation, RelationError
from powertrain.feasibility import break_probability
from powertrain.objectives import ASSUMED_PEAK_FACTOR, LimitError, Limits, Objective, Work
from powertrain.prediction import Prediction
from powertrain.space import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class BatchProfile:
    """What is known of one batch size on a board: a step's time and power in every mode (infinite where unknown).

    `peak_factor` says how far single readings lie above the mean; `eligible` narrows the modes to choose from.
    """

    batch_size: int
    prediction: Prediction
    peak_factor: FloatArray | float = ASSUMED_PEAK_FACTOR
    eligible: BoolArray | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A batch size with its best mode under the limits.

    `time` and `energy` are to accuracy, in seconds and joules per sample of the size that needs most samples (r = 1);
    only their ratios mean something without the study's own counts.
    """

    batch_size: int
    row: int
    sample_s: float
    power_w: float
    peak_w: float
    r: float
    r_interpolated: bool
    break_probability: float

    @property
    def time(self) -> float:
        """Return the relative time to accuracy."""
        return self.sample_s * self.r

    @property
    def energy(self) -> float:
        """Return the relative energy to accuracy."""
        return self.time * self.power_w


@dataclass(frozen=True)
class BatchChoice:
    """The chosen pair (None where no batch size has a mode within the limits), all candidates and who is out and why.

    `candidates` come best first.
    """

    best: Candidate | None
    candidates: tuple[Candidate, ...] = ()
    excluded: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def largest(self) -> Candidate | None:
        """Return the candidate with the largest batch: what one would take without a study."""
        return max(self.candidates, key=lambda c: c.batch_size, default=None)

    @property
    def time_against_largest(self) -> float | None:
        """Return the time to accuracy of the choice relative to the largest batch's; below 1 is faster."""
        if self.best is None or self.largest is None:
            return None
        return self.best.time / self.largest.time


def choose_batch(
    profiles: Sequence[BatchProfile],
    relation: Relation,
    objective: Objective = Objective.MIN_TIME,
    limits: Limits | None = None,
    work: Work | None = None,
    risk: float = 0.05,
    infeasible: Mapping[int, str] | None = None,
) -> BatchChoice:
    """Choose batch size and mode. `infeasible`: sizes that can't run (out of memory), with the reason.

    Without limits the fastest mode of every size competes. Limits per epoch are for `work.samples_per_epoch` at each
    size; limits on the whole training take `work.epochs` as what the size with r = 1 needs, and others as r times that.
    """
    if not profiles:
        raise LimitError("a choice needs at least one profiled batch size")
    excluded: dict[int, str] = dict(infeasible or {})
    candidates = []
    for profile in profiles:
        if profile.batch_size in excluded:
            continue
        best_of_size = _candidate(profile, relation, objective, limits or Limits(), work or Work(), risk)
        if isinstance(best_of_size, str):
            excluded[profile.batch_size] = best_of_size
        else:
            candidates.append(best_of_size)
    ranked = tuple(sorted(candidates, key=lambda candidate: _goal(objective, candidate)))
    if not ranked:
        why = "; ".join(f"{size}: {text}" for size, text in sorted(excluded.items()))
        return BatchChoice(None, (), excluded, f"no batch size can be chosen ({why})")
    return BatchChoice(ranked[0], ranked, excluded, _reason(objective, ranked))


def _candidate(
    profile: BatchProfile, relation: Relation, objective: Objective, limits: Limits, work: Work, risk: float
) -> Candidate | str:
    """Return the best mode of one batch size, or why it has none."""
    try:
        efficiency = relation.at(profile.batch_size)
    except RelationError as error:
        return str(error)
    epochs = None if work.epochs is None else max(1, math.ceil(work.epochs * efficiency.r))
    own = replace(work, batch_size=profile.batch_size, epochs=epochs)
    prediction = profile.prediction
    break_risk = break_probability(prediction, limits, own, profile.peak_factor)
    feasible = break_risk <= risk
    if profile.eligible is not None:
        feasible &= profile.eligible
    if not feasible.any():
        return _miss(profile, limits)
    with np.errstate(invalid="ignore"):
        energy = prediction.time_s * prediction.power_w
    goal, tie = {
        Objective.MIN_TIME: (prediction.time_s, prediction.power_w),
        Objective.MIN_POWER: (prediction.power_w, prediction.time_s),
        Objective.MIN_ENERGY: (energy, prediction.time_s),
    }[objective]
    least = goal[feasible].min()
    row = int(np.argmin(np.where(feasible & (goal == least), tie, np.inf)))
    factor = float(np.broadcast_to(profile.peak_factor, prediction.power_w.shape)[row])
    power_w = float(prediction.power_w[row])
    return Candidate(
        batch_size=profile.batch_size,
        row=row,
        sample_s=float(prediction.time_s[row]) / profile.batch_size,
        power_w=power_w,
        peak_w=power_w * factor,
        r=efficiency.r,
        r_interpolated=efficiency.interpolated,
        break_probability=float(break_risk[row]),
    )


def _miss(profile: BatchProfile, limits: Limits) -> str:
    power_w = profile.prediction.power_w
    usable = np.isfinite(power_w) if profile.eligible is None else np.isfinite(power_w) & profile.eligible
    if not usable.any():
        return "nothing is known of any mode"
    least = float((power_w * (profile.peak_factor if limits.needs_peak else 1.0))[usable].min())
    kind = "peak power" if limits.needs_peak else "power"
    return f"no mode keeps the limits; the least {kind} is {least:.4g} W"


def _goal(objective: Objective, candidate: Candidate) -> tuple[float, float, int]:
    """Return what is minimised, then the other of time and energy, then the smaller batch."""
    if objective is Objective.MIN_TIME:
        return candidate.time, candidate.energy, candidate.batch_size
    if objective is Objective.MIN_POWER:
        return candidate.power_w, candidate.time, candidate.batch_size
    return candidate.energy, candidate.time, candidate.batch_size


def _reason(objective: Objective, ranked: Sequence[Candidate]) -> str:
    best, largest = ranked[0], max(ranked, key=lambda candidate: candidate.batch_size)
    what = {
        Objective.MIN_TIME: "least time to accuracy",
        Objective.MIN_POWER: "least power",
        Objective.MIN_ENERGY: "least energy to accuracy",
    }[objective]
    sizes = "1 batch size" if len(ranked) == 1 else f"{len(ranked)} batch sizes"
    text = f"batch size {best.batch_size}: {what} of {sizes} within the limits"
    if best is not largest:
        text += f"; {best.time / largest.time:.2f} × the time of the largest, {largest.batch_size}"
        text += f" (time a sample {best.sample_s / largest.sample_s:.2f} ×, samples {best.r / largest.r:.2f} ×)"
    if best.r_interpolated:
        text += "; its r is interpolated between studied sizes"
    return text
