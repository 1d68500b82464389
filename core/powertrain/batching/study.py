"""A batch study: trainings over batch sizes × seeds on a proxy data set, what they reported, and r from them.

Pure values: whoever runs the trainings (the command line on one machine, an operator on many) asks what is pending,
adds what came out, and reads the relation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from powertrain.batching.learning_rate import Scaling, scaled_learning_rate
from powertrain.batching.relation import Relation

VERSION = 1
# The largest count that every reader of JSON takes for the same number.
MOST_SAMPLES = 2**53 - 1


class StudyError(ValueError):
    """A study that can't be run or read; the message says what to change."""


class Outcome(StrEnum):
    """How a run ended."""

    REACHED = "Reached"
    CAP_REACHED = "CapReached"  # the samples allowed were not enough: this batch size does not converge in time
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class StudySpec:
    """What is trained: `command` for every batch size and seed until `target_accuracy`, at most `max_samples`.

    N_acc is counted in units of `unit_samples` (the papers' s): at least the largest batch, at most the data set.
    """

    name: str
    batch_sizes: tuple[int, ...]
    seeds: int
    target_accuracy: float
    learning_rate: float
    at_batch_size: int
    scaling: Scaling = Scaling.SQRT
    max_samples: int = 1_000_000
    unit_samples: int | None = None
    data_samples: int | None = None
    command: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.batch_sizes or min(self.batch_sizes) < 1 or len(set(self.batch_sizes)) < len(self.batch_sizes):
            raise StudyError(f"batch sizes must be different whole numbers above zero, not {list(self.batch_sizes)}")
        if self.seeds < 1:
            raise StudyError(f"a study needs at least one seed, not {self.seeds}")
        if not self.target_accuracy > 0:
            raise StudyError(f"the target accuracy must be above zero, not {self.target_accuracy}")
        if self.max_samples < max(self.batch_sizes):
            raise StudyError(f"the cap of {self.max_samples} samples is below one batch of {max(self.batch_sizes)}")
        unit, most = self.unit_samples, self.data_samples
        if unit is not None and (unit < max(self.batch_sizes) or (most is not None and unit > most)):
            limit = "the data set's size" if most is None else str(most)
            raise StudyError(f"s must lie between the largest batch ({max(self.batch_sizes)}) and {limit}, not {unit}")
        scaled_learning_rate(self.learning_rate, self.at_batch_size, 1, self.scaling)

    @property
    def unit(self) -> int:
        """Return s, by default the largest batch size."""
        return max(self.batch_sizes) if self.unit_samples is None else self.unit_samples

    def rate(self, batch_size: int) -> float:
        """Return the learning rate of a batch size."""
        return scaled_learning_rate(self.learning_rate, self.at_batch_size, batch_size, self.scaling)

    def environment(self, batch_size: int, seed: int) -> dict[str, str]:
        """Return what a run finds in its environment."""
        return {
            "POWERTRAIN_BATCH_SIZE": str(batch_size),
            "POWERTRAIN_LEARNING_RATE": repr(self.rate(batch_size)),
            "POWERTRAIN_SEED": str(seed),
            "POWERTRAIN_TARGET_ACCURACY": repr(self.target_accuracy),
            "POWERTRAIN_MAX_SAMPLES": str(self.max_samples),
        }


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One training of a study; `samples` until the target, or until it was given up."""

    batch_size: int
    seed: int
    outcome: Outcome
    samples: int | None = None
    accuracy: float | None = None
    seconds: float | None = None
    reason: str = ""


def run_from_message(batch_size: int, seed: int, message: str, exit_code: int, max_samples: int) -> StudyRun:
    """Return a run from its termination message (what `powertrain_sdk.reached` wrote) and its exit code."""

    def failed(reason: str) -> StudyRun:
        return StudyRun(batch_size, seed, Outcome.FAILED, reason=reason)

    if not message.strip():
        what = (
            f"exit code {exit_code}" if exit_code else "it ended without calling powertrain_sdk.reached at the target"
        )
        return failed(what)
    try:
        result = json.loads(message)
        samples = None if result["samples"] is None else int(result["samples"])
        accuracy, seconds = result.get("accuracy"), result.get("seconds")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return failed(f"its last message is not what powertrain_sdk.reached writes: {message.strip()[:200]}")
    if not samples:
        return failed("no steps were counted: call powertrain_sdk.step() or use powertrain_sdk.track(loader)")
    if not 0 < samples <= MOST_SAMPLES:
        return failed(f"its last message says {str(samples)[:32]} samples: a run has 1 to {MOST_SAMPLES}")
    capped = bool(result.get("capReached")) or samples > max_samples
    outcome = Outcome.CAP_REACHED if capped else Outcome.REACHED
    reason = f"not reached within {max_samples} samples" if capped else ""
    return StudyRun(batch_size, seed, outcome, samples, accuracy, seconds, reason)


@dataclass(frozen=True)
class Study:
    """A spec and the runs so far. Grows by `add`."""

    spec: StudySpec
    runs: tuple[StudyRun, ...] = field(default_factory=tuple)

    def add(self, run: StudyRun) -> Study:
        """Return the study with a run more; a repeated one replaces the earlier."""
        others = [r for r in self.runs if (r.batch_size, r.seed) != (run.batch_size, run.seed)]
        ordered = sorted([*others, run], key=lambda r: (r.batch_size, r.seed))
        return replace(self, runs=tuple(ordered))

    def pending(self) -> list[tuple[int, int]]:
        """Return the batch sizes and seeds still to run, failed ones included; large batches first."""
        finished_runs = {(run.batch_size, run.seed) for run in self.runs if run.outcome is not Outcome.FAILED}
        pairs = [
            (size, seed) for size in sorted(self.spec.batch_sizes, reverse=True) for seed in range(self.spec.seeds)
        ]
        return [pair for pair in pairs if pair not in finished_runs]

    def needed(self) -> dict[int, list[int]]:
        """Return the samples that each run of each usable batch size needed."""
        missing = self.missing()
        return {
            size: [r.samples for r in self._of(size) if r.outcome is Outcome.REACHED and r.samples is not None]
            for size in sorted(self.spec.batch_sizes)
            if size not in missing
        }

    def missing(self) -> dict[int, str]:
        """Return why a batch size has no value: it must reach the target with every seed that ran to an end."""
        reasons = {}
        for size in sorted(self.spec.batch_sizes):
            runs = self._of(size)
            capped = sum(run.outcome is Outcome.CAP_REACHED for run in runs)
            reached_count = sum(run.outcome is Outcome.REACHED for run in runs)
            if capped:
                reasons[size] = f"{capped} of {len(runs)} runs did not reach the target within the cap"
            elif not reached_count:
                failed = [run.reason for run in runs if run.outcome is Outcome.FAILED]
                reasons[size] = f"all {len(runs)} runs failed; the last: {failed[-1]}" if failed else "not run yet"
        return reasons

    def partial(self) -> dict[int, str]:
        """Return which batch sizes have a value from fewer seeds than asked for, because runs failed."""
        reasons = {}
        for size in self.needed():
            failed = [run for run in self._of(size) if run.outcome is Outcome.FAILED]
            if failed:
                reasons[size] = f"{len(failed)} of {self.spec.seeds} runs failed; the last: {failed[-1].reason}"
        return reasons

    def relation(self) -> Relation:
        """Return r of the batch sizes that reached the target, and why others are missing."""
        return Relation.measured(
            {size: [float(n) for n in samples] for size, samples in self.needed().items()}, self.missing()
        )

    @property
    def complete(self) -> bool:
        """Say whether every run has ended, however it did."""
        return len(self.runs) == len(self.spec.batch_sizes) * self.spec.seeds

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with N_acc and r beside the runs they come from."""
        samples_needed, unit = self.needed(), self.spec.unit
        relation = self.relation() if samples_needed else None
        return {
            "version": VERSION,
            "spec": asdict(self.spec),
            "runs": [asdict(run) for run in self.runs],
            "n_acc": {
                str(size): {
                    "mean": float(np.mean(samples)) / unit,
                    "spread": _spread(samples) / unit,
                    "runs": len(samples),
                }
                for size, samples in samples_needed.items()
            },
            "r": {} if relation is None else {str(size): relation.r[size] for size in relation.batch_sizes},
            "spread": {} if relation is None else {str(size): relation.spread[size] for size in relation.batch_sizes},
            "missing": {str(size): reason for size, reason in self.missing().items()},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Study:
        """Rebuild a study; N_acc and r are computed anew from its runs."""
        if document.get("version") != VERSION:
            raise StudyError(f"a study of version {document.get('version')!r}; this release reads version {VERSION}")
        try:
            fields = dict(document["spec"])
            fields |= {
                "batch_sizes": tuple(fields["batch_sizes"]),
                "command": tuple(fields["command"]),
                "scaling": Scaling(fields["scaling"]),
            }
            runs = [StudyRun(**{**run, "outcome": Outcome(run["outcome"])}) for run in document["runs"]]
            return cls(StudySpec(**fields), tuple(runs))
        except (KeyError, TypeError, ValueError) as error:
            raise StudyError(f"the study is damaged: {error}") from error

    def _of(self, size: int) -> list[StudyRun]:
        return [run for run in self.runs if run.batch_size == size]


def _spread(values: list[int]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def mean_needed(study: Study) -> dict[int, float]:
    """Return the mean number of samples each usable batch size needs."""
    return {size: math.fsum(samples) / len(samples) for size, samples in study.needed().items()}
