"""Whose turn it is: priorities, namespaces one after the other, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from powertrain_operator.cache import Change
from powertrain_operator.observation import Key
from powertrain_operator.reconcilers import affected_keys
from powertrain_operator.turns import AGE_S, Waiter, in_turn, priority

from .batches import several, study
from .conftest import Cluster


def waiter(name: str, priority: int = 0, waited_s: float = 0.0) -> Waiter:
    """A job that is named after its namespace and its place in it."""
    return Waiter(name, name[0], priority, (name[1:],), waited_s)


def priority_class(cluster: Cluster, name: str, value: int, **fields: Any) -> None:
    metadata = {"name": name}
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}
    cluster.put({**body, **fields})


def in_namespace(cluster: Cluster, namespace: str, name: str) -> None:
    """A job of another namespace, which was not looked at yet."""
    body = cluster.job("first")
    metadata = {"name": name, "namespace": namespace, "generation": 1}
    cluster.put({**{key: body[key] for key in ("apiVersion", "kind", "spec")}, "metadata": metadata})
    cluster.settle()


def held_by(cluster: Cluster) -> list[str]:
    jobs = cluster.cache.each("TrainingJob")
    return [job["metadata"]["name"] for job in jobs if any(n["holds"] for n in job["status"].get("nodes", []))]


def test_a_higher_priority_comes_first() -> None:
    assert in_turn([waiter("a1"), waiter("b2", 5), waiter("a3", 5)], {}, {}) == ["b2", "a3", "a1"]


def test_namespaces_take_turns_whatever_the_number_of_their_jobs() -> None:
    flood = [waiter(f"a{number}") for number in range(10, 15)]
    assert in_turn([*flood, waiter("b50"), waiter("b60")], {}, {}) == ["a10", "b50", "a11", "b60", "a12", "a13", "a14"]


def test_the_namespace_that_was_served_last_waits() -> None:
    assert in_turn([waiter("a1"), waiter("b2")], {}, {"a": "2026-06-01T12:00:00Z"}) == ["b2", "a1"]


def test_nodes_that_a_namespace_has_count_against_it_for_a_while() -> None:
    assert in_turn([waiter("a1"), waiter("b2")], {"a": 1}, {"b": "2026"}) == ["b2", "a1"]
    assert in_turn([waiter("a1", waited_s=AGE_S), waiter("b2")], {"a": 1}, {"b": "2026"}) == ["a1", "b2"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), min_size=1, max_size=30, unique=True))
def test_every_namespace_is_served_before_any_is_served_twice(jobs: list[tuple[str, int]]) -> None:
    order = in_turn([waiter(f"{namespace}{number:02}") for namespace, number in jobs], {}, {})
    namespaces = {namespace for namespace, _ in jobs}
    assert {uid[0] for uid in order[: len(namespaces)]} == namespaces
    assert len(order) == len(jobs)


def test_a_priority_is_that_of_the_templates_class() -> None:
    classes = [
        {"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000},
        {"metadata": {"name": "high"}, "value": 1000},
        {"metadata": {"name": "usual"}, "value": 10, "globalDefault": True},
    ]
    named = {"high": 1000, "": 10, "unknown": 0, "system-node-critical": 0}
    assert {name: priority({"spec": {"priorityClassName": name}}, classes) for name in named} == named


def test_a_flood_of_one_namespace_keeps_no_other_waiting(one_board: Cluster) -> None:
    c = one_board
    c.submit("first")
    for number in range(5):
        c.submit(f"flood-{number}")
    in_namespace(c, "other", "single")
    c.running("first-0-1")
    c.ends("first-0-1")
    c.restores()
    assert held_by(c) == ["single"]


def test_a_job_of_a_higher_class_comes_before_older_ones(one_board: Cluster) -> None:
    c = one_board
    priority_class(c, "urgent", 100)
    c.submit("first")
    c.submit("older")
    c.submit("urgent", workload={"template": {"spec": {"priorityClassName": "urgent"}}})
    c.running("first-0-1")
    c.ends("first-0-1")
    c.restores()
    assert held_by(c) == ["urgent"]


def test_a_change_of_a_study_asks_for_its_own_jobs_only(one_board: Cluster) -> None:
    c = one_board
    c.submit("other")
    several(c, batchEfficiency={"study": "proxy"})
    study(c)
    body = c.get("BatchStudy", "proxy", "team")
    keys = set(affected_keys(c.cache, Change(Key("BatchStudy", "team", "proxy"), body, body)))
    assert keys == {Key("BatchStudy", "team", "proxy"), Key("TrainingJob", "team", "job")}
