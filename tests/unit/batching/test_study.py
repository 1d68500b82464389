"""A batch study as a value: what is pending, what came out, what is missing, and its file form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain.batching import RelationError, Scaling
from powertrain.batching.study import (
    Outcome,
    Study,
    StudyError,
    StudyRun,
    StudySpec,
    mean_needed,
    run_from_message,
)

SPEC = StudySpec("digits", (8, 32), 2, 0.95, 1e-3, 32, max_samples=5000, unit_samples=100, command=("train",))


def reached(size: int, seed: int, samples: int) -> StudyRun:
    return StudyRun(size, seed, Outcome.REACHED, samples, 0.96, 1.5)


FULL = Study(SPEC).add(reached(8, 0, 900)).add(reached(8, 1, 1100)).add(reached(32, 0, 1500)).add(reached(32, 1, 1700))


def test_everything_is_pending_at_first_and_nothing_in_the_end() -> None:
    assert Study(SPEC).pending() == [(32, 0), (32, 1), (8, 0), (8, 1)]
    assert FULL.pending() == []
    assert FULL.complete


def test_a_failed_run_is_pending_again_and_one_that_hit_the_cap_is_not() -> None:
    failed = StudyRun(8, 0, Outcome.FAILED, reason="exit code 1")
    capped = StudyRun(8, 1, Outcome.CAP_REACHED, 5000)
    study = Study(SPEC).add(failed).add(capped)
    assert (8, 0) in study.pending()
    assert (8, 1) not in study.pending()
    assert study.add(reached(8, 0, 10)).pending() == [(32, 0), (32, 1)]


def test_means_and_spread_become_n_acc_and_r() -> None:
    document = FULL.to_dict()
    assert document["n_acc"]["8"] == pytest.approx({"mean": 10.0, "spread": 1.4142, "runs": 2}, rel=1e-3)
    assert document["r"] == pytest.approx({"8": 0.625, "32": 1.0})
    assert mean_needed(FULL) == {8: 1000.0, 32: 1600.0}


def test_a_size_that_hits_the_cap_once_has_no_r() -> None:
    study = FULL.add(StudyRun(32, 1, Outcome.CAP_REACHED, 5008))
    assert study.relation().batch_sizes == (8,)
    assert study.missing() == {32: "1 of 2 runs did not reach the target within the cap"}


def test_a_failed_run_leaves_the_others_and_all_failed_none() -> None:
    study = FULL.add(StudyRun(8, 1, Outcome.FAILED, reason="out of memory"))
    assert study.needed()[8] == [900]
    study = study.add(StudyRun(8, 0, Outcome.FAILED, reason="out of memory"))
    assert study.missing()[8] == "all 2 runs failed; the last: out of memory"
    with pytest.raises(RelationError, match="not run yet"):
        Study(SPEC).relation()


def test_each_run_finds_its_batch_size_rate_and_seed_in_the_environment() -> None:
    environment = SPEC.environment(8, 1)
    assert environment["POWERTRAIN_BATCH_SIZE"] == "8"
    assert float(environment["POWERTRAIN_LEARNING_RATE"]) == pytest.approx(5e-4)
    assert (environment["POWERTRAIN_SEED"], environment["POWERTRAIN_MAX_SAMPLES"]) == ("1", "5000")


@pytest.mark.parametrize(
    ("message", "code", "outcome", "reason"),
    [
        ('{"samples": 640, "accuracy": 0.95, "seconds": 2.0}', 0, Outcome.REACHED, ""),
        ('{"samples": 640, "accuracy": 0.9, "capReached": true}', 0, Outcome.CAP_REACHED, "not reached within 5000"),
        ('{"samples": 9000, "accuracy": 0.95}', 0, Outcome.CAP_REACHED, "not reached within 5000"),
        ("", 1, Outcome.FAILED, "exit code 1"),
        ("", 0, Outcome.FAILED, "without calling powertrain_sdk.reached"),
        ("Killed", 137, Outcome.FAILED, "is not what powertrain_sdk.reached writes: Killed"),
        ('{"samples": null, "accuracy": 0.95}', 0, Outcome.FAILED, "no steps were counted"),
    ],
)
def test_a_termination_message_becomes_a_run(message: str, code: int, outcome: Outcome, reason: str) -> None:
    run = run_from_message(8, 0, message, code, 5000)
    assert run.outcome is outcome
    assert reason in run.reason


@given(
    st.lists(
        st.tuples(st.sampled_from([8, 32]), st.integers(0, 1), st.sampled_from(list(Outcome)), st.integers(1, 5000)),
        max_size=6,
    )
)
def test_the_file_form_reads_back(runs: list[tuple[int, int, Outcome, int]]) -> None:
    study = Study(SPEC)
    for size, seed, outcome, samples in runs:
        study = study.add(StudyRun(size, seed, outcome, samples, reason="why"))
    assert Study.from_dict(json.loads(json.dumps(study.to_dict()))) == study


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_sizes": ()},
        {"batch_sizes": (8, 8)},
        {"seeds": 0},
        {"target_accuracy": 0.0},
        {"max_samples": 16},
        {"unit_samples": 16},
        {"unit_samples": 200, "data_samples": 100},
        {"learning_rate": -1.0},
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    fields = {"name": "x", "batch_sizes": (8, 32), "seeds": 1, "target_accuracy": 0.9, "learning_rate": 1e-3}
    with pytest.raises(ValueError, match=r"must|needs|below"):
        StudySpec(**{**fields, "at_batch_size": 32, "scaling": Scaling.SQRT, **wrong})


def test_another_version_and_a_damaged_file_are_told_apart() -> None:
    with pytest.raises(StudyError, match="version 9"):
        Study.from_dict({"version": 9})
    with pytest.raises(StudyError, match="damaged"):
        Study.from_dict({"version": 1, "spec": {}})
