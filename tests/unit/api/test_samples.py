"""Samples and fronts survive the wire, and a full PowerNode stays small."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from pydantic import ValidationError

from powertrain import PowerMode, devices
from powertrain.api.samples import DIGITS, MAX_FRONT, MAX_SAMPLES, Front, Samples, short
from powertrain.api.v1alpha1 import (
    PROTOCOL,
    JobReference,
    PowerNode,
    PowerNodeSpec,
    PowerNodeStatus,
    Prior,
    SessionResult,
    SessionSpec,
    SessionStatus,
    SessionWorkload,
)
from powertrain.prediction import Prediction
from powertrain.samples import EarlySample, Sample

SPACE = devices.get("orin-agx").space()
MODE = PowerMode(12, 2201600, 1300500000, 3199000000)


def full_samples(count: int = MAX_SAMPLES) -> Samples:
    draw = random.Random(1)
    return Samples.of(
        (
            Sample(
                SPACE[draw.randrange(len(SPACE))],
                draw.uniform(0.01, 0.9),
                draw.uniform(12, 60),
                16,
                draw.uniform(0.001, 0.01),
                40,
                draw.uniform(20, 65),
                draw.uniform(0.1, 0.9),
                draw.uniform(45, 90),
                unsafe=draw.random() < 0.2,
            )
            for _ in range(count)
        ),
        batch_size=16,
    )


def full_front() -> Front:
    draw = np.random.default_rng(1)
    prediction = Prediction(*(draw.uniform(0.01, 60, len(SPACE)) for _ in range(4)))
    return Front.of(SPACE, prediction, draw.choice(len(SPACE), MAX_FRONT, replace=False))


def test_samples_come_back_as_they_were() -> None:
    rows = [
        Sample(MODE, 0.25, 31.5, 16, 0.01, 40, 33.0, 0.5, 51.0),
        Sample(PowerMode(4, 729600, 306000000, 665600000), 1.5, 12.0, 16, unsafe=True),
        Sample(MODE, 0.26, 31.0, 16, throttled=True),
    ]
    wire = json.loads(json.dumps(Samples.of(rows, 16).wire()))
    assert Samples.model_validate(wire).samples() == rows


def test_errors_of_time_and_power_come_back_and_a_mode_that_was_left_early_is_no_sample() -> None:
    rows = [Sample(MODE, 0.25, 31.5, 16, step_error_s=0.002, power_error_w=0.3)]
    other = PowerMode(4, 729600, 306000000, 665600000)
    early = [EarlySample(other, 19.5, 1.2), EarlySample(MODE, 21.0, 0.8, 0.5, 0.02)]
    wire = json.loads(json.dumps(Samples.of(rows, 16, early).wire()))
    samples = Samples.model_validate(wire)
    assert samples.samples() == rows
    assert samples.early.samples() == early
    assert wire["early"]["stepSeconds"] == "- 0.5"
    assert Samples.model_validate({**wire, "early": {}}).early.samples() == []


def test_a_release_that_knows_no_early_samples_reads_the_measured_ones_alone() -> None:
    wire = Samples.of([Sample(MODE, 0.25, 31.5)], 1, [EarlySample(MODE, 21.0, 0.8)]).wire()
    del wire["early"]
    assert [sample.power_w for sample in Samples.model_validate(wire).samples()] == [31.5]


def test_columns_that_no_sample_has_are_empty() -> None:
    samples = Samples.of([Sample(MODE, 0.25, 31.5)])
    assert (samples.peak_watts, samples.steps, samples.temperature_celsius) == ((), (), ())


def test_no_samples_are_no_samples() -> None:
    assert Samples.of([]).samples() == []


def test_of_too_many_samples_the_newest_are_kept() -> None:
    samples = Samples.of(Sample(MODE, float(number), 10.0) for number in range(1, MAX_SAMPLES + 11))
    assert len(samples) == MAX_SAMPLES
    assert samples.step_seconds[0] == 11.0


def test_a_column_is_one_text_and_a_list_is_understood_too() -> None:
    samples = Samples.of([Sample(MODE, 0.25, 31.5, power_peak_w=33.0), Sample(MODE, 0.5, 20.0, unsafe=True)])
    wire = samples.wire()
    assert (wire["stepSeconds"], wire["peakWatts"], wire["unsafe"]) == ("0.25 0.5", "33.0 -", "1")
    assert Samples.model_validate(wire) == samples
    assert Samples.model_validate({**wire, "stepSeconds": [0.25, 0.5], "peakWatts": [33.0, None]}) == samples


@pytest.mark.parametrize(
    ("column", "message"),
    [("0.25 fast", "unable to parse"), ("0.25 -1", "greater than or equal to 0"), ("0.25 -", "valid number")],
)
def test_a_text_that_is_no_column_of_numbers_is_refused(column: str, message: str) -> None:
    wire = Samples.of([Sample(MODE, 0.25, 31.5), Sample(MODE, 0.5, 20.0)]).wire()
    with pytest.raises(ValidationError, match=message):
        Samples.model_validate({**wire, "stepSeconds": column})


@pytest.mark.parametrize("value", [0.0123456, 1.0, 59.987, 1e-5, 8.5e6])
def test_rounding_costs_less_than_half_a_thousandth(value: float) -> None:
    assert short(value) == pytest.approx(value, rel=0.5 * 10 ** (1 - DIGITS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cpu": [0, 0]}, "column cpu has 2 values for 1 modes"),
        ({"stepSeconds": []}, "column step_seconds has 0 values for 1 modes"),
        ({"peakWatts": [1, 2]}, "column peak_watts has 2 values for 1 modes"),
        ({"gpu": [3]}, "column gpu refers to place 3 of an axis of 1 values"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(change: dict[str, object], message: str) -> None:
    wire = Samples.of([Sample(MODE, 0.25, 31.5)]).wire()
    with pytest.raises(ValidationError, match=message):
        Samples.model_validate({**wire, **change})


def test_a_front_keeps_modes_and_figures_in_order() -> None:
    count = len(SPACE)
    prediction = Prediction(*(np.arange(1.0, count + 1) * scale for scale in (1, 0.1, 10, 0.5)))
    front = Front.of(SPACE, prediction, [7, 2])
    assert list(front.modes()) == [SPACE[7], SPACE[2]]
    assert (front.step_seconds, front.power_std_watts) == ((8.0, 3.0), (4.0, 1.5))


def test_a_front_with_too_many_points_is_refused() -> None:
    prediction = Prediction(*(np.ones(len(SPACE)) for _ in range(4)))
    with pytest.raises(ValueError, match="at most 256 points on the wire, not 257"):
        Front.of(SPACE, prediction, range(MAX_FRONT + 1))


def test_a_full_prior_and_a_full_result_fit_into_128_kib() -> None:
    samples, front = full_samples(), full_front()
    session = SessionSpec(
        protocol=PROTOCOL,
        uid="u" * 36,
        job=JobReference(namespace="n" * 63, name="j" * 63),
        workload=SessionWorkload(name="w"),
        pod_uids=tuple("p" * 36 for _ in range(8)),
        prior=Prior(samples=samples),
    )
    result = SessionResult(strategy="transfer", samples=samples, front=front)
    node = PowerNode(
        metadata={"name": "n" * 63},
        spec=PowerNodeSpec(session=session),
        status=PowerNodeStatus(session=SessionStatus(uid="u" * 36, message="m" * 1024, result=result)),
    )
    size = len(json.dumps(node.wire(), separators=(",", ":")))
    assert size < 124 * 1024  # the server's own metadata takes up to 4 KiB
