"""Numbers that nobody can mean, in specs and in agents' reports: a job still starts, is suspended and is deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powertrain.api.base import MOST_COUNTED
from powertrain.batching.study import MOST_SAMPLES, Outcome, run_from_message
from powertrain_operator.reconcile.summary import FARTHEST_S

from ..operator.conftest import MODES, Cluster

Object = dict[str, Any]
COUNTS = st.sampled_from([0, 1, 10**6, 10**15, 2**63 - 1, 2**64 - 1, 10**30]) | st.integers(0, 10**30)
SIZES = st.floats(0, 1e308, allow_nan=False) | st.sampled_from([0.0, 5e-324, 1e300, 1.7e308])


def started(**workload: Any) -> Cluster:
    cluster = Cluster()
    cluster.board("orin-1")
    cluster.submit(workload=workload)
    cluster.opens()
    cluster.pod("job-0-1")
    return cluster


def ends_in_order(cluster: Cluster) -> None:
    """Suspend the job, resume it, delete it: at every step the board comes back."""
    cluster.edit(suspend=True)
    assert cluster.status()["stopping"] == "Suspended"
    cluster.restores()
    assert (cluster.status()["phase"], cluster.status()["where"]) == ("Suspended", "")
    cluster.edit(suspend=False)
    assert cluster.status()["where"] == "orin-1"
    cluster.delete()
    cluster.restores()
    assert cluster.cache.get("TrainingJob", "job", "team") is None
    assert "Restored" in cluster.reasons()


def sendable(status: Object) -> None:
    """What is written is JSON as the API server takes it: no infinities, counts and words that fit."""
    json.dumps(status, allow_nan=False)
    assert status.get("progress", {}).get("samples", 0) <= MOST_COUNTED
    assert len(status.get("remaining", "")) <= 16
    assert status.get("eta", "2")[:1] == "2", "no forecast reaches beyond a hundred years"


@given(steps=COUNTS, samples=COUNTS, epoch=COUNTS, step_s=SIZES, power_w=SIZES, energy_j=SIZES)
@settings(max_examples=25)
def test_a_job_ends_in_order_whatever_its_agent_reports(
    steps: int, samples: int, epoch: int, step_s: float, power_w: float, energy_j: float
) -> None:
    cluster = started()
    figures = {"stepSeconds": step_s, "powerWatts": power_w}
    cluster.chooses(
        training={"steps": steps, "samples": samples, "epoch": epoch},
        predicted=figures,
        observed=figures,
        energyJoules=energy_j,
    )
    cluster.wait(60.0)
    sendable(cluster.status())
    ends_in_order(cluster)


@pytest.mark.parametrize("epochs", [10**15, MOST_COUNTED, 2**63 - 1])
@pytest.mark.parametrize("samples", [1, MOST_COUNTED, 2**63 - 1])
def test_a_training_that_never_ends_can_be_suspended_and_deleted(epochs: int, samples: int) -> None:
    cluster = started(epochs=epochs, samplesPerEpoch=samples)
    cluster.chooses()
    status = cluster.status()
    assert status["phase"] == "Running"
    sendable(status)
    assert ("eta" in status) == (status.get("remaining", "") != "")
    ends_in_order(cluster)


def test_a_long_training_has_a_forecast_and_a_longer_one_has_none() -> None:
    decades = int(0.5 * FARTHEST_S / 0.1)
    cluster = started(epochs=decades, samplesPerEpoch=16)
    cluster.chooses()
    assert cluster.status()["remaining"] == f"{round((decades - 250) * 0.1 / 86400)}d"
    cluster = started(epochs=4 * decades, samplesPerEpoch=16)
    cluster.chooses()
    assert cluster.status().get("remaining", "") == ""
    assert "eta" not in cluster.status()
    assert cluster.status()["progress"]["percent"] == 0.0


def test_a_report_that_can_not_be_read_is_told_and_stops_nothing() -> None:
    cluster = started()
    cluster.report(phase="Running", gateOpen=True, verified=True, mode=MODES["fast"], training={"steps": 1e30})
    assert cluster.condition("Degraded") == ("True", "ReportUnreadable")
    assert "training.steps" in cluster.event_message("ReportUnreadable")
    ends_in_order(cluster)


@pytest.mark.parametrize(
    "message",
    ['{"samples": 1e400}', '{"samples": -5}', '{"samples": 1e300}', "[" * 4096, '{"samples": []}', "[1]", '"x"', "1"],
)
def test_the_last_words_of_a_study_s_run_are_a_count_or_a_failure(message: str) -> None:
    run = run_from_message(16, 0, message, 0, 1000)
    assert run.outcome is Outcome.FAILED
    assert run.samples is None
    most = run_from_message(16, 0, json.dumps({"samples": MOST_SAMPLES}), 0, 1000)
    assert most.outcome is Outcome.CAP_REACHED
