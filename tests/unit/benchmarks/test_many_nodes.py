"""The replay of many nodes writes what a real agent writes, and says when a job found a free node."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchmarks.blocks import BLOCK
from benchmarks.many_nodes.agents import AgentReplay
from benchmarks.many_nodes.load import Decisions
from benchmarks.many_nodes.measurement import Figures, Size, percentile
from benchmarks.many_nodes.pages import blocks, write
from benchmarks.many_nodes.paper import Fleet, estimate
from benchmarks.many_nodes.recording import BOARDS, Recording, Witness, envelope, load, record, shapes
from benchmarks.many_nodes.report import curve, missed, table

from powertrain.api.v1alpha1 import PowerNode, Prior
from powertrain_agent.link.status import SETTLE_S

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
MEMORY = Path("/dev/shm")
PAGE = Path(__file__).resolve().parents[3] / "docs/scale.md"
Object = dict[str, Any]


@pytest.fixture
def memory_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="powertrain-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    return load()


@pytest.mark.parametrize("board", BOARDS)
def test_a_real_agent_still_writes_what_was_recorded(
    board: str, recordings: dict[str, Recording], memory_dir: Path
) -> None:
    recorded = recordings[board]
    fresh = record(board, BOARDS[board], recorded.profile, memory_dir / board)
    assert shapes(fresh) == shapes(recorded), "record again: python -m benchmarks.many_nodes.recording"
    assert fresh.status.keys() == recorded.status.keys()
    assert fresh.status["device"] == recorded.status["device"]
    assert fresh.status["capabilities"]["modes"] == recorded.status["capabilities"]["modes"]


def test_another_generation_is_one_write_after_a_moment_that_brings_nothing_else(
    recordings: dict[str, Recording], memory_dir: Path
) -> None:
    recorded = recordings["orin-agx"]
    witness = Witness("orin-agx", memory_dir / "board")
    prior = Prior.model_validate({"match": "Exact", **recorded.profile}).wire()
    witness.power_node(envelope(30.0, 1, (), prior))
    witness.run(30.0, lambda status: status.gate_open)
    written, now_s = len(witness.bodies), witness.now_s
    before = witness.bodies[-1][1]["status"]["session"]
    witness.power_node(envelope(30.0, 2, ("pod-1",), prior))
    witness.simulation.run(2 * SETTLE_S)
    ((at_s, body),) = witness.bodies[written:]
    after = body["status"]["session"]
    figures = ("observed", "energyJoules", "observedGeneration")
    assert (at_s, after["observedGeneration"]) == (pytest.approx(now_s + SETTLE_S, abs=0.2), 2)
    assert {k: v for k, v in after.items() if k not in figures} == {k: v for k, v in before.items() if k not in figures}


class ReplayedAgent:
    """A replayed agent, and its writes."""

    def __init__(self, recording: Recording, speed: float = 4.0) -> None:
        self.agent = AgentReplay("orin-agx-0000", recording, speed)

    def spec(self, uid: str, generation: int = 1, release: str | None = None) -> Object:
        session = envelope(30.0, generation, ()) | {"uid": uid}
        return {"session": session, **({"release": release} if release else {})}

    def until(self, end_s: float, now_s: float) -> list[tuple[float, Object]]:
        writes = []
        while (now_s := max(now_s, self.agent.next_s())) <= end_s:
            body = self.agent.take(now_s, NOW)
            assert body is not None
            PowerNode.model_validate(body)
            writes.append((now_s, body["status"].get("session") or {}))
        return writes


def test_a_replayed_agent_goes_from_the_envelope_to_the_restored_board(recordings: dict[str, Recording]) -> None:
    replayed = ReplayedAgent(recordings["orin-agx"])
    agent = replayed.agent
    agent.told(replayed.spec("one"), 0.0, NOW)
    replayed.until(1.0, 0.0)
    assert agent.gate_open("one")
    agent.told(replayed.spec("one", 2), 1.0, NOW)
    agent.training("one", 1.0)
    writes = replayed.until(31.0, 1.0)
    assert {session["observedGeneration"] for _, session in writes} == {2}
    assert [session["phase"] for _, session in writes][-1] == "Running"
    steps = [session["training"]["steps"] for _, session in writes]
    assert steps == sorted(steps)
    quiet_s = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(writes)]
    assert max(quiet_s) <= 10.0 + 1e-9
    agent.told(replayed.spec("one", 3, release="one"), 31.0, NOW)
    *_, (at_s, last) = replayed.until(40.0, 31.0)
    assert (last["uid"], last["phase"], last["restored"], last["gateOpen"]) == ("one", "Ended", True, False)
    assert not agent.in_session
    agent.told(replayed.spec("two"), at_s, NOW)
    replayed.until(at_s + 1.0, at_s)
    assert (agent.gate_open("one"), agent.gate_open("two")) == (False, True)


def test_a_replayed_agent_confirms_a_lower_share_after_a_window_and_a_higher_one_at_once(
    recordings: dict[str, Recording],
) -> None:
    agent = ReplayedAgent(recordings["orin-agx"]).agent

    def confirmed_by(now_s: float) -> float | None:
        while agent.next_s() <= now_s:
            body = agent.take(max(now_s - 0.01, agent.next_s()), NOW)
            assert body is not None
            written = PowerNode.model_validate(body).status.share_watts
        return written

    def share(watts: float, revision: int) -> Object:
        return {"shares": [{"budget": "site", "watts": watts, "revision": revision, "guardWindowSeconds": 3.0}]}

    agent.told(share(20.0, 1), 0.0, NOW)
    assert confirmed_by(2.9) is None
    agent.told(share(20.0, 1), 2.95, NOW)  # its own status comes back in the watch: that postpones nothing
    assert confirmed_by(3.1) == 20.0
    agent.told(share(25.0, 2), 4.0, NOW)
    assert confirmed_by(4.0 + SETTLE_S + 0.1) == 25.0
    agent.told(share(15.0, 3), 6.0, NOW)
    agent.failed()
    assert confirmed_by(8.9) == 25.0
    assert confirmed_by(9.1) == 15.0


def power_node(name: str, job: str | None, restored: bool = False) -> Object:
    session = {"uid": f"{job}-0-1", "job": {"namespace": "bench", "name": job}} if job else None
    reported = {"uid": f"{job}-0-1", "restored": restored}
    return {"metadata": {"name": name}, "spec": {"session": session}, "status": {"session": reported}}


def test_only_jobs_that_find_a_free_node_count() -> None:
    seen = Decisions(nodes=2)
    for job in ("a", "b", "c"):
        seen.created(job, 0.0)
    seen.power_node(power_node("n1", "a"))
    seen.power_node(power_node("n2", "b"))
    assert (seen.without_free_node, seen.most_busy, len(seen.latencies_s())) == ({"c"}, 2, 2)
    seen.power_node(power_node("n1", "a", restored=True))
    assert seen.busy == {"n2"}


def test_a_decision_that_was_never_seen_is_counted_not_forgotten() -> None:
    seen = Decisions(nodes=2)
    for job in ("a", "b"):
        seen.created(job, 0.0)
    seen.power_node(power_node("n1", "a"))
    assert (len(seen.latencies_s()), seen.unseen()) == (1, ["b"])


def test_a_write_that_failed_is_due_again(recordings: dict[str, Recording]) -> None:
    agent = ReplayedAgent(recordings["orin-agx"]).agent
    body = agent.take(0.0, NOW)
    assert (body is not None, agent.take(0.0, NOW)) == (True, None)
    agent.failed()
    assert agent.take(0.0, NOW) == body


def figures(nodes: int, p99_s: float, **changes: Any) -> Figures:
    return replace(_figures(nodes, p99_s), **changes)


def _figures(nodes: int, p99_s: float) -> Figures:
    return Figures(
        size=Size(nodes, 10, 1.0),
        p50_s=0.1,
        p99_s=p99_s,
        most_s=p99_s,
        jobs_with_free_node=10,
        unseen_decisions=0,
        most_busy_nodes=5,
        cpu_s_per_job=0.1,
        idle_cpu_share=0.01,
        peak_mib=90.0,
        writes_per_job={"Job create": 1.0},
        reconciles_per_job={"Queue": 1.0},
        seconds_per_reconcile={"Queue": 0.1},
        errors=0.0,
        power_node_kib=20.0,
        replayed_writes={"Lease by agents": 100, "PowerNode by agents": 140, "Pod by kubelets": 30},
        other_cpu_s_per_job={},
        cores=2,
        load_average=1.0,
        seconds=60.0,
    )


def test_a_broken_promise_is_named_and_the_curve_shows_every_size() -> None:
    found = [figures(20, 0.5), figures(200, 2.5)]
    assert missed(found) == ["200 nodes: p99 2.50 s, promised < 2 s"]
    assert "| 200 | 10 (1) | 100 | 2500 |" in table(found)
    assert curve(found).count("<circle") == 4
    [promise] = [line for line in curve(found).splitlines() if "promised: below 2" in line]
    assert ' y="24">' in promise, "in the title, where no figure can lie under it"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"errors": 2.0}, "2 reconciles failed"),
        ({"unseen_decisions": 1}, "1 decisions were never seen"),
        ({"jobs_with_free_node": 8}, "only 8 of 10 jobs found a free node"),
        ({"peak_mib": 251.0}, "251 MiB, promised < 250 MiB"),
        ({"writes_per_job": {"Job create": 41.0}}, "41.0 writes a job, promised < 40"),
        ({"cpu_s_per_job": 0.14}, "CPU a job grew 1.40 times from 20 to 200 nodes"),
        ({"writes_per_job": {"Job create": 1.4}}, "writes a job grew 1.40 times from 20 to 200 nodes"),
    ],
)
def test_every_promise_is_looked_at(changes: Object, words: str) -> None:
    assert missed([figures(20, 0.5), figures(200, 0.5)]) == []
    assert any(words in each for each in missed([figures(20, 0.5), figures(200, 0.5, **changes)]))


def test_a_run_in_which_no_size_was_finished_still_says_so(tmp_path: Path) -> None:
    write([], ["20 nodes: the operator ended"], tmp_path / "found.json", tmp_path / "curve.svg", None)
    assert json.loads((tmp_path / "found.json").read_text()) == {
        "missed": ["20 nodes: the operator ended"],
        "sizes": [],
    }
    assert not (tmp_path / "curve.svg").exists()


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = [figures(20, 0.5), figures(200, 0.5)]
    write(found, [], tmp_path / "found.json", None, None)
    whole = json.loads((tmp_path / "found.json").read_text())
    assert [Figures.read(raw) for raw in whole["sizes"]] == found


def test_the_page_asks_for_the_blocks_that_there_are_and_is_filled(tmp_path: Path) -> None:
    text, found = PAGE.read_text(encoding="utf-8"), [figures(20, 0.5), figures(200, 0.5)]
    assert {block["name"] for block in BLOCK.finditer(text)} == blocks(found, []).keys()
    page = tmp_path / "scale.md"
    page.write_text(text, encoding="utf-8")
    write(found, ["200 nodes: p99"], None, None, page)
    assert "- 200 nodes: p99" in page.read_text(encoding="utf-8")


def test_percentiles_are_values_that_were_measured() -> None:
    assert (percentile([1.0, 2.0, 3.0], 0.5), percentile([5.0], 0.99)) == (2.0, 5.0)
    assert percentile([float(n) for n in range(1, 101)], 0.99) == 99.0


def test_the_paper_exercise_follows_from_what_was_measured() -> None:
    fleet = Fleet(nodes=5000, busy=0.9, job_s=3600.0)
    rows = dict(estimate(figures(20, 0.5).wire(), figures(200, 0.5).wire(), fleet))
    assert rows["jobs per second"] == pytest.approx(1.25)
    assert rows["Lease writes per second, agents"] == 500.0
    assert rows["figures per second, agents"] == pytest.approx(4500 / 10 + 500 / 60)
    assert rows["operator's memory, MiB"] == 90.0, "nothing grew from 20 to 200 nodes"
