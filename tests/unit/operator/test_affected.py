"""What comes first when much is due: everything that a job's start waits for."""

from __future__ import annotations

from powertrain_operator.reconcile.queue import QUEUE
from powertrain_operator.reconcilers import urgent
from powertrain_operator.sighting import Key

from .conftest import Cluster

JOB, BOARD = Key("TrainingJob", "team", "job"), Key("PowerNode", "", "orin-1")


def test_the_queue_is_always_urgent(cluster: Cluster) -> None:
    assert urgent(cluster.world, QUEUE)


def test_a_job_is_urgent_until_something_is_known_about_it(one_board: Cluster) -> None:
    c = one_board
    metadata = {"name": "job", "namespace": "team", "generation": 1}
    c.put({"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": {}})
    assert urgent(c.world, JOB)
    c.change("TrainingJob", "job", "team", status={"phase": "Queued"})
    assert not urgent(c.world, JOB)
    assert not urgent(c.world, Key("TrainingJob", "team", "gone"))


def test_a_board_is_urgent_while_its_holder_s_envelope_is_not_written(one_board: Cluster) -> None:
    c = one_board
    assert not urgent(c.world, BOARD)
    c.submit()
    assert not urgent(c.world, BOARD), "it has its envelope"
    told = c.get("PowerNode", "orin-1")
    c.put({**told, "spec": {}})
    assert urgent(c.world, BOARD)
    assert not urgent(c.world, Key("PowerNode", "", "gone"))
