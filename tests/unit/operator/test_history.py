"""A job keeps the history of its sessions when they end: bounded, from its own session only, gone with the job."""

from __future__ import annotations

import pytest

from powertrain.api.training_job import MAX_REPLICAS
from powertrain.api.v1alpha1 import JobNode
from powertrain.session_history import COMPACT_BYTES, Happening, SessionHistory
from powertrain_operator.history import JOB_BYTES, kept_history

from .conftest import MODES, Cluster


def history(rows: int = 200) -> SessionHistory:
    session_history = SessionHistory("2026-03-01T10:00:00Z")
    for place in range(rows):
        session_history.add(10.0 * place, 20.0 + place % 7, 0.123, MODES["fast" if place % 2 else "slow"], 30.0)
        session_history.mark(10.0 * place, Happening.TRIAL, f"tries mode number {place}, because it may be faster " * 3)
    return session_history


def ended(c: Cluster, data: str, session: str | None = None) -> dict[str, object]:
    """Run a job to its end on a board that tells this history, and return its entry of the node."""
    c.submit()
    c.running()
    record = {"session": session or c.session()["uid"], "data": data}
    c.change("PowerNode", "orin-1", status={"history": record})
    assert "history" not in c.status()["nodes"][0], "only the end is kept: a write each minute would cost too much"
    c.ends("job-0-1")
    c.settle()
    c.restores()
    assert not c.status()["nodes"][0]["holds"]
    node: dict[str, object] = c.status()["nodes"][0]
    return node


def test_the_history_of_an_ended_session_stays_with_its_job(one_board: Cluster) -> None:
    history_so_far = history().compact()
    job_history = ended(one_board, history_so_far.to_text())["history"]
    assert isinstance(job_history, str)
    assert SessionHistory.from_text(job_history).to_dict() == history_so_far.to_dict()
    one_board.change("PowerNode", "orin-1", status={"history": {"session": "another", "data": "{}"}})
    one_board.wait(60)
    assert one_board.status()["nodes"][0]["history"] == job_history


@pytest.mark.parametrize(
    "data", ["", "no JSON", "[]", '{"began_at": "x"}', history(3).to_text().replace("20.0", "NaN")]
)
def test_a_history_that_makes_no_sense_is_left_out_and_holds_up_nothing(one_board: Cluster, data: str) -> None:
    assert "history" not in ended(one_board, data)


def test_the_history_of_another_session_is_not_taken(one_board: Cluster) -> None:
    assert "history" not in ended(one_board, history().compact().to_text(), session="another")


@pytest.mark.parametrize("replicas", [1, 2, MAX_REPLICAS])
def test_the_histories_of_a_job_stay_within_its_bytes_whatever_its_replicas(one_board: Cluster, replicas: int) -> None:
    record = {"session": "s", "data": history(5000).compact().to_text()}
    one_board.change("PowerNode", "orin-1", status={"history": record})
    job_history = kept_history(one_board.cache, JobNode(replica=0, name="orin-1", session="s"), replicas)
    assert job_history is not None
    assert len(job_history.encode()) <= COMPACT_BYTES
    assert replicas * len(job_history.encode()) <= JOB_BYTES
    assert len(SessionHistory.from_text(job_history).rows) >= 4
