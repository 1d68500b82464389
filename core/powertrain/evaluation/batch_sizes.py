"""How well batch sizes are predicted that were never profiled: smallest, middle and largest are, the rest is scored.

Beside the model stand two bounds that know every mode of the three sizes and interpolate each on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from powertrain.batching.model import BatchModel
from powertrain.evaluation.board import Board
from powertrain.evaluation.evaluate import EvaluationError
from powertrain.evaluation.plausibility import plausible_rows
from powertrain.evaluation.scores import Score, Summary, prediction_score
from powertrain.objectives import Work
from powertrain.prediction import Prediction
from powertrain.profiling import Aim, Problem
from powertrain.samples import Sample, SampleTable
from powertrain.session import Done, ProfilingSession
from powertrain.strategies.base import HasPhysics


@dataclass(frozen=True, slots=True)
class UnseenSettings:
    """How many samples over the three sizes together, how many seeds, and the relative noise on them."""

    samples: int = 40
    seeds: int = 10
    noise: float = 0.0


def evaluate_unseen(
    target: SampleTable,
    reference: HasPhysics | None,
    settings: UnseenSettings,
    progress: Callable[[float], None] | None = None,
) -> list[dict[str, Any]]:
    """Return the summary over all unseen sizes, over their plausible rows, and of each, in the form of `evaluate`.

    Each result carries `batch_size` ("unseen", "unseen, plausible rows", or the size) and `profiled` sizes. Then the
    same for `linear` and `log-linear`, which interpolate between all modes of those sizes.
    """
    sizes = target.batch_sizes()
    if len(sizes) < 4:
        raise EvaluationError(f"three batch sizes are profiled and others scored: at least 4 are needed, not {sizes}")
    profiled = (sizes[0], sizes[len(sizes) // 2], sizes[-1])
    if settings.samples < 3 * len(profiled):
        raise EvaluationError(f"at least {3 * len(profiled)} samples are needed, not {settings.samples}")
    boards = {size: Board.of(target.at_batch_size(size), settings.noise) for size in sizes}
    if any(not np.array_equal(boards[size].truth.matrix, boards[sizes[0]].truth.matrix) for size in sizes):
        counts = {size: len(boards[size].truth) for size in sizes}
        raise EvaluationError(f"every batch size needs the same modes; modes by size: {counts}")
    other_sizes = [size for size in sizes if size not in profiled]
    summaries = {label: Summary("transfer", settings.samples) for label in _labels(other_sizes)}
    counts = shares(profiled, settings.samples)
    for seed in range(settings.seeds):
        samples, minutes = profile_sizes(boards, counts, reference, seed, settings.noise)
        physics = None if reference is None else reference.physics
        model = BatchModel(physics, boards[sizes[0]].space.matrix, seed, settings.noise)
        model.fit(SampleTable.of(samples))
        whole = _whole({size: _scores(model.predict(size), boards[size]) for size in other_sizes})
        for label, score in whole.items():
            summaries[label].scores.append(replace(score, profiling_minutes=minutes, modes=len(samples)))
        if progress is not None:
            progress((seed + 1) / settings.seeds)
    rows = [*summaries.items(), *_bounds(boards, profiled, other_sizes)]
    return [{**summary.to_dict(), "batch_size": label, "profiled": list(profiled)} for label, summary in rows]


def shares(sizes: tuple[int, ...], count: int) -> dict[int, int]:
    """Return how many samples each size gets: as equal as can be, in the order in which they are profiled."""
    order = [sizes[-1], sizes[0], *sizes[1:-1]]
    return {size: count // len(order) + (position < count % len(order)) for position, size in enumerate(order)}


def profile_sizes(
    boards: Mapping[int, Board], counts: Mapping[int, int], reference: HasPhysics | None, seed: int, noise: float = 0.0
) -> tuple[list[Sample], float]:
    """Return so many samples of each size, planned by `transfer` one size after the other, and the minutes they took.

    Each session knows what was measured at the sizes before it.
    """
    samples: list[Sample] = []
    seconds = 0.0
    for size, share in counts.items():
        problem = Problem(
            boards[size].space,
            aim=Aim.ACCURACY,
            work=Work(batch_size=size),
            max_modes=share,
            min_gain=0.0,
            noise=noise,
            seed=seed,
            elsewhere=tuple(samples),
        )
        session = ProfilingSession(problem, "transfer", reference)
        while not isinstance(answer := session.ask(), Done):
            sample = boards[size].measure(answer.mode, seed)
            session.tell(sample)
            samples.append(sample)
            seconds += float(problem.cost.seconds(sample.step_s))
    return samples, seconds / 60


def interpolated(low: SampleTable, high: SampleTable, size: int, linear: bool) -> Prediction:
    """Return each mode's time and power between two sizes that hold the same modes, in size or in its logarithm."""
    ends = np.array([low.batch_size[0], high.batch_size[0]], dtype=np.float64)
    if linear:
        share = (size - ends[0]) / (ends[1] - ends[0])
        time_s, power_w = (
            (1.0 - share) * getattr(low, name) + share * getattr(high, name) for name in ("step_s", "power_w")
        )
    else:
        share = np.log(size / ends[0]) / np.log(ends[1] / ends[0])
        time_s, power_w = (
            getattr(low, name) ** (1.0 - share) * getattr(high, name) ** share for name in ("step_s", "power_w")
        )
    return Prediction(time_s, np.full(len(low), np.nan), power_w, np.full(len(low), np.nan))


def _bounds(
    boards: dict[int, Board], profiled: tuple[int, ...], other_sizes: list[int]
) -> Iterator[tuple[str | int, Summary]]:
    """Score interpolation between every mode of the profiled sizes."""
    for strategy in ("linear", "log-linear"):
        scores = {}
        for size in other_sizes:
            low, high = (max(s for s in profiled if s < size), min(s for s in profiled if s > size))
            bounds = interpolated(boards[low].truth, boards[high].truth, size, strategy == "linear")
            scores[size] = _scores(bounds, boards[size])
        modes = sum(len(boards[size].truth) for size in profiled)
        for label, score in _whole(scores).items():
            yield label, Summary(strategy, modes, [replace(score, time_95=None, power_95=None, modes=modes)])


def _labels(other_sizes: list[int]) -> list[str | int]:
    return ["unseen", "unseen, plausible rows", *other_sizes]


def _whole(scores: dict[int, tuple[Score, Score]]) -> dict[str | int, Score]:
    """Return the scores by label: over all sizes, over their plausible rows, and of each size."""
    every, plausible = ([pair[which] for pair in scores.values()] for which in (0, 1))
    return dict(zip(_labels(list(scores)), [_mean(every), _mean(plausible), *every], strict=True))


def _scores(prediction: Prediction, board: Board) -> tuple[Score, Score]:
    every = np.ones(len(board.truth), dtype=np.bool_)
    return (
        prediction_score(prediction, board.truth, every),
        prediction_score(prediction, board.truth, plausible_rows(board.truth)),
    )


def _mean(scores: list[Score]) -> Score:
    def mean(name: str) -> float:
        return float(np.mean([getattr(score, name) for score in scores]))

    return Score(mean("mape_time_pct"), mean("mape_power_pct"), mean("time_95"), mean("power_95"))
