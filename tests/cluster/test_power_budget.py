"""One cap over eight boards on a real API server: jobs, falls of the cap, an empty battery, killed processes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from powertrain.api.resources import POWER_BUDGETS, POWER_NODES
from powertrain.api.v1alpha1 import moment
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain_devcluster.testing.waits import SessionLogs, wait_for
from powertrain_kube import NotFoundError

from .training_cluster import Job, Object, TrainingCluster, open_training_cluster

BOARDS = {f"agx-{number}": "orin-agx" for number in (1, 2, 3)} | {f"nano-{n}": "orin-nano" for n in range(1, 6)}
SCALE = 2.0
CAP_W = 140.0
NAME = "shed"
# A cap that falls without notice is followed within so many seconds by boards that can be reached.
FOLLOWED_S = 12.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/powertrain-system/leases/operator.powertrain.io"
CLUSTER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/powertrain-operator"


class SumOfBoards:
    """The true power of all boards together, from outside, against the cap that may be expected to hold."""

    def __init__(self, cluster: TrainingCluster) -> None:
        self._boards = [cluster.sysfs(name) for name in BOARDS]
        self._looks: list[tuple[float, float]] = []
        self._caps: list[tuple[float, float]] = [(0.0, CAP_W)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sum-of-boards", daemon=True)

    def __enter__(self) -> SumOfBoards:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        self._thread.join()

    def expect(self, watts: float) -> None:
        """Another cap holds: a higher one at once, a lower one when the boards had time to follow."""
        before = self._caps[-1][1]
        self._caps.append((time.monotonic() + (FOLLOWED_S if watts < before else 0.0), watts))

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            watts = sum(sysfs.instant().power_w for sysfs in self._boards)
            self._looks.append((time.monotonic(), watts))

    def allowed_w(self, at_s: float) -> float:
        return [watts for since_s, watts in self._caps if since_s <= at_s][-1]

    def worst(self) -> tuple[float, float, float]:
        """Return the highest mean over a window against its cap: the ratio, the watts and the cap."""
        window_s, worst = DEFAULT_WINDOW_S / SCALE, (0.0, 0.0, 1.0)
        begin = 0
        for end, (at_s, _) in enumerate(self._looks):
            while self._looks[begin][0] < at_s - window_s:
                begin += 1
            if end - begin < 5:
                continue
            mean_w = sum(watts for _, watts in self._looks[begin : end + 1]) / (end + 1 - begin)
            cap_w = max(self.allowed_w(at_s), self.allowed_w(self._looks[begin][0]))
            worst = max(worst, (mean_w / cap_w, mean_w, cap_w))
        return worst


@pytest.fixture
def cluster(cluster_binaries: dict[str, Path], session_logs: SessionLogs, tmp_path: Path) -> Iterator[TrainingCluster]:
    logs = session_logs.folder / "power-budget"
    with open_training_cluster(cluster_binaries, tmp_path, logs, BOARDS, SCALE, ("--reshare-seconds", "3")) as opened:
        yield opened


def status(cluster: TrainingCluster) -> Object:
    return dict(cluster.rest.get(POWER_BUDGETS.path(NAME)).get("status") or {})


def apply_budget(cluster: TrainingCluster, watts: float, percent: float = 80.0) -> None:
    body = {
        "apiVersion": "powertrain.io/v1alpha1",
        "kind": "PowerBudget",
        "metadata": {"name": NAME, "annotations": battery(percent)},
        "spec": {"watts": watts, "battery": [{"below": 20, "watts": 0}]},
    }
    cluster.rest.apply(POWER_BUDGETS.path(NAME), body, manager="test")


def battery(percent: float) -> Object:
    now = moment(datetime.now(UTC))
    return {"powertrain.io/battery-percent": f"{percent:g}", "powertrain.io/battery-percent-at": now}


def annotate(cluster: TrainingCluster, percent: float) -> None:
    cluster.rest.merge_patch(POWER_BUDGETS.path(NAME), {"metadata": {"annotations": battery(percent)}})


def wait_until_settled(cluster: TrainingCluster, cap_w: float, jobs: int) -> Object:
    """Wait until a cap is in force, all shares are kept, and so many jobs have their boards."""

    def holds(budget_status: Object) -> bool:
        boards = budget_status.get("boards") or []
        return (
            budget_status.get("capWatts") == cap_w
            and budget_status.get("jobs") == jobs
            and len(boards) == len(BOARDS)
            and all(board.get("confirmed") for board in boards)
            and budget_status["allocatedWatts"] <= cap_w + 0.05
            and all(b["shareWatts"] >= b["lowestWatts"] - 0.1 for b in boards if b.get("job"))
        )

    return wait_for(f"{jobs} jobs within {cap_w:g} W", lambda: status(cluster), holds, 60.0)


def reserved_w(cluster: TrainingCluster) -> float:
    """What is reserved by the objects themselves, whatever anybody says of it."""
    total_w = 0.0
    for node in cluster.rest.get(POWER_NODES.path())["items"]:
        share = next(iter((node.get("spec") or {}).get("shares") or ()), None)
        first_share = next(iter((node.get("status") or {}).get("shares") or ()), {})
        if share is not None:
            confirmed = first_share.get("revision") == share["revision"]
            total_w += share["watts"] if confirmed else max(share["reservedWatts"], first_share.get("watts", 0.0))
    return total_w


def submit(cluster: TrainingCluster) -> list[Job]:
    sizes = {"agx-1": 4000, "agx-2": 40_000, "nano-1": 20_000, "nano-2": 60_000, "nano-3": 8000}
    return [
        cluster.job(f"job-{board}", board, steps=steps, constraints={"powerWatts": 40})
        for board, steps in sizes.items()
    ]


def kill_operator_after(cluster: TrainingCluster, writes: int, cap_w: float) -> None:
    """Change the cap, kill the operator after so many writes of shares, and let the next one take over at once."""
    operator = cluster.fleet.operator
    assert operator is not None

    def revisions() -> dict[str, int]:
        nodes = cluster.rest.get(POWER_NODES.path())["items"]
        return {n["metadata"]["name"]: s["revision"] for n in nodes for s in (n.get("spec") or {}).get("shares") or ()}

    before = revisions()
    apply_budget(cluster, cap_w)
    wait_for(
        f"{writes} writes of shares",
        lambda: sum(now - before.get(name, 0) for name, now in revisions().items()),
        lambda changed: changed >= writes,
        30.0,
    )
    operator.kill()
    for lease in (LEASE, CLUSTER_LEASE):
        with contextlib.suppress(NotFoundError):
            cluster.rest.delete(lease)
    cluster.fleet.start_operator()


def test_a_site_keeps_its_cap_whatever_happens(cluster: TrainingCluster) -> None:
    apply_budget(cluster, CAP_W)
    with SumOfBoards(cluster) as total:
        wait_until_settled(cluster, CAP_W, 0)
        jobs = submit(cluster)
        wait_until_settled(cluster, CAP_W, len(jobs))

        # The cap falls by half: in proportion at once; who does not fit waits and holds no board.
        total.expect(CAP_W / 2)
        apply_budget(cluster, CAP_W / 2)
        wait_for(
            "half the cap to be kept",
            lambda: status(cluster),
            lambda budget_status: (
                budget_status.get("capWatts") == CAP_W / 2
                and budget_status.get("allocatedWatts", 999) <= CAP_W / 2 + 0.05
            ),
            60.0,
        )
        assert reserved_w(cluster) <= CAP_W / 2 + 0.05

        # The operator dies after the first, second and third write of a re-share.
        for number, cap_w in enumerate((CAP_W, CAP_W - 10, CAP_W), start=1):
            total.expect(cap_w)
            kill_operator_after(cluster, number, cap_w)
        wait_until_settled(cluster, CAP_W, len(jobs))

        # An agent dies: its board keeps its mode, and its watts stay reserved.
        cluster.fleet.agents["nano-2"].kill()
        share_w = next(b["shareWatts"] for b in status(cluster)["boards"] if b["name"] == "nano-2")
        total.expect(CAP_W - 15)
        apply_budget(cluster, CAP_W - 15)
        wait_for(
            "the others to make room",
            lambda: status(cluster),
            lambda budget_status: (
                budget_status.get("capWatts") == CAP_W - 15
                and budget_status.get("allocatedWatts", 999) <= CAP_W - 15 + 0.05
            ),
            60.0,
        )
        assert next(b["watts"] for b in status(cluster)["boards"] if b["name"] == "nano-2") >= share_w - 0.1
        cluster.fleet.start_agent("nano-2")
        wait_until_settled(cluster, CAP_W - 15, len(jobs))

        # The battery is nearly empty: training ends in an orderly way, and comes back by itself.
        annotate(cluster, 15)
        for job in jobs:
            job.wait(
                "to wait for power without a board",
                lambda budget_status: (
                    budget_status.get("phase") == "WaitingForPower"
                    and not any(n["holds"] for n in budget_status["nodes"])
                ),
            )
        annotate(cluster, 80)
        wait_until_settled(cluster, CAP_W - 15, len(jobs))
    ratio, watts, cap_w = total.worst()
    assert ratio <= 1.0, f"{watts:.1f} W over {DEFAULT_WINDOW_S:g} s under a cap of {cap_w:g} W"
    assert status(cluster)["exceeded"] == 0
