"""One process that stands for the agents and kubelets of many nodes: what they write, at the pace at which they do.

    python -m benchmarks.many_nodes.replay --kubeconfig FILE --nodes 200 --namespace powertrain-system

Real agents and kubelets watch their own object each; here one watch of PowerNodes and one of pods serve all. What they
write is the same, one write each, by the agent's own client and Lease keeper. A write that the server does not answer
is tried again, as they do. Told to end (SIGTERM), it prints how many writes of which kind it made.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import heapq
import io
import itertools
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from powertrain.api.resources import POWER_NODES
from powertrain.api.v1alpha1 import PowerNodeStatus
from powertrain_agent.link.api import FIELD_MANAGER
from powertrain_agent.link.contact import Contact
from powertrain_agent.link.lease import RENEW_S, LeaseKeeper
from powertrain_agent.link.status import patch
from powertrain_kube import AlreadyExistsError, AwayError, GoneError, KubeApi, Log, NotFoundError
from powertrain_kube.backoff import Backoff
from powertrain_kube.credentials import credentials
from powertrain_kube.patches import difference
from powertrain_operator.resources import JOB_UID_LABEL

from . import nodes
from .agents import AgentReplay
from .nodes import PodReplay
from .recording import Recording, load

Object = dict[str, Any]
WRITERS = 16
POD_START_S = 0.3  # from a bound pod to its first container, where the image is there
READY = "ready"
FAILED = "failed writes, tried again"


class Timeline:
    """Runs things when they are due, on a few threads; a failure that nobody foresaw is said and ends the process."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._pool = ThreadPoolExecutor(WRITERS)
        self.stopped = threading.Event()

    def at(self, when_s: float, do: Callable[[], None]) -> None:
        """Have something done at a time of the monotonic clock."""
        with self._changed:
            heapq.heappush(self._heap, (when_s, next(self._order), do))
            self._changed.notify()

    def run(self) -> None:
        """Serve until stopped."""
        while not self.stopped.is_set():
            with self._changed:
                wait_s = self._heap[0][0] - time.monotonic() if self._heap else 1.0
                if wait_s > 0:
                    self._changed.wait(min(wait_s, 1.0))
                    continue
                _, _, do = heapq.heappop(self._heap)
            self._pool.submit(self.guard, do)
        self._pool.shutdown(cancel_futures=True)

    def guard(self, do: Callable[[], None]) -> None:
        """Do something; an error that nobody foresaw ends the process."""
        try:
            do()
        except NotFoundError:
            return  # deleted meanwhile
        except Exception as error:
            if not self.stopped.is_set():
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                self.stopped.set()


class Board:
    """One node: its agent, its Lease keeper, and the pods that wait at its gate."""

    def __init__(self, name: str, device: str, recording: Recording, speed: float, keeper: LeaseKeeper) -> None:
        self.name, self.device, self.keeper = name, device, keeper
        self.agent = AgentReplay(name, recording, speed)
        self.lock, self.writing = threading.RLock(), threading.Lock()
        self.backoff = Backoff()
        self.stored: Object | None = None  # the status as the server answered last
        self.waiting: list[PodReplay] = []


class Api:
    """The API server for many threads, each with a connection of its own that stays open; counts what it writes."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._threads = threading.local()
        self._lock = threading.Lock()
        self.writes: collections.Counter[str] = collections.Counter()

    @property
    def kube(self) -> KubeApi:
        """Return this thread's client."""
        if not hasattr(self._threads, "kube"):
            with self._lock:  # the library keeps certificates in a file that it fills only after others may find it
                self._threads.kube = KubeApi(lambda: credentials(self._kubeconfig), FIELD_MANAGER)
        kube: KubeApi = self._threads.kube
        return kube

    def counted(self, what: str) -> None:
        """Count a write, or one that failed."""
        with self._lock:
            self.writes[what] += 1

    # The agents' four verbs.

    def apply(self, path: str, body: Object) -> Object:
        """Make these fields the agent's."""
        return self._by_agents(path, functools.partial(self.kube.apply, path, body))

    def merge_patch(self, path: str, body: Object) -> Object:
        """Change these fields."""
        return self._by_agents(path, functools.partial(self.kube.merge_patch, path, body))

    def _by_agents(self, path: str, write: Callable[[], Object]) -> Object:
        self.counted(f"{'PowerNode' if path.startswith(POWER_NODES.path()) else 'Lease'} by agents")
        try:
            return write()
        except AwayError:
            self.counted(FAILED)
            raise

    def list(self, path: str, query: Mapping[str, str]) -> Object:
        """Return a list of objects."""
        return self.kube.list(path, query)

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Return events."""
        return self.kube.watch(path, query)

    # The kubelets'.

    def merge(self, what: str, path: str, body: Object) -> None:
        """Change an object's fields."""
        self.counted(what)
        try:
            self.kube.merge_patch(path, body, manager="kubelet")
        except AwayError:
            self.counted(FAILED)
            raise

    def make(self, path: str, body: Object) -> None:
        """Create an object, unless it is there already."""
        with contextlib.suppress(AlreadyExistsError):
            self.kube.create(path, body, manager="kubelet")


class Replay:
    """All nodes of one cluster."""

    def __init__(self, api: Api, count: int, namespace: str, speed: float, job_s: float) -> None:
        self._api, self._job_s = api, job_s
        self.timeline = Timeline()
        self._pods: dict[str, PodReplay] = {}
        self.boards: dict[str, Board] = {}
        recordings = load()
        quiet, contact = Log(io.StringIO()), Contact(time.monotonic, lambda since: None, lambda: None)
        for number, device in zip(range(count), itertools.cycle(recordings), strict=False):
            name = f"{device}-{number:04d}"
            keeper = LeaseKeeper(api, namespace, name, name, lambda: "", contact, quiet)
            self.boards[name] = Board(name, device, recordings[device], speed, keeper)

    # The start.

    def join(self) -> None:
        """Make the nodes, ready, with the Leases of their kubelets and agents."""
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(self._make, self.boards.values()))
        self.beat(time.monotonic())

    def beat(self, now_s: float) -> None:
        """Keep every Lease from now on, spread over the time between two renewals."""
        for number, board in enumerate(self.boards.values()):
            first_s = now_s + RENEW_S * number / len(self.boards)
            for beat in (self._agent_beat, self._kubelet_beat):
                self._again(first_s, functools.partial(beat, board))

    def _make(self, board: Board) -> None:
        self._api.make(nodes.NODES, nodes.node(board.name, board.device))
        self._api.make(nodes.LEASES, nodes.node_lease(board.name))
        status = {"status": nodes.node_status(board.name)}
        self._api.merge("Node by kubelets", f"{nodes.NODES}/{board.name}/status", status)
        board.keeper.renew()

    def _again(self, when_s: float, do: Callable[[], float]) -> None:
        """Have something done, and again after the seconds that it returns."""
        self.timeline.at(when_s, lambda: self._again(time.monotonic() + do(), do))

    def _agent_beat(self, board: Board) -> float:
        return board.keeper.renew()

    def _kubelet_beat(self, board: Board) -> float:
        body = {"spec": nodes.node_lease(board.name)["spec"]}
        with contextlib.suppress(AwayError):
            self._api.merge("Lease by kubelets", f"{nodes.LEASES}/{board.name}", body)
        return RENEW_S

    # What is seen.

    def follow(self, path: str, handle: Callable[[Object], None]) -> None:
        """Hand every object of a kind to `handle`, now and whenever it changes, until the end."""
        backoff = Backoff(0.1, 5.0)
        while not self.timeline.stopped.is_set():
            try:
                listing = self._api.list(path, {})
                for item in listing["items"]:
                    handle(item)
                backoff.reset()
                self._follow_from(path, listing["metadata"]["resourceVersion"], handle)
            except (AwayError, GoneError):
                self.timeline.stopped.wait(backoff.next_s())

    def _follow_from(self, path: str, version: str, handle: Callable[[Object], None]) -> None:
        while not self.timeline.stopped.is_set():
            for event in self._api.watch(path, {"resourceVersion": version, "allowWatchBookmarks": "true"}):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] in ("ADDED", "MODIFIED"):
                    handle(event["object"])

    def power_node(self, body: Object) -> None:
        """A PowerNode was made or changed."""
        board = self.boards.get(body["metadata"]["name"])
        if board is None:
            return
        with board.lock:
            board.agent.told(body.get("spec") or {}, time.monotonic(), datetime.now(UTC))
            due_s = board.agent.next_s()
        self.timeline.at(due_s, lambda: self._report(board))

    def pod(self, body: Object) -> None:
        """A pod was made, bound or changed."""
        metadata, spec = body["metadata"], body["spec"]
        board = self.boards.get(spec.get("nodeName", ""))
        if board is None or JOB_UID_LABEL not in (metadata.get("labels") or {}):
            return
        if metadata.get("deletionTimestamp") or metadata["uid"] in self._pods:
            return
        pod = self._pods[metadata["uid"]] = PodReplay(body)
        self.timeline.at(time.monotonic() + POD_START_S, lambda: self._at_the_gate(board, pod))

    # What is written.

    def _report(self, board: Board) -> None:
        """Write a board's status if something is due, let pods through its gate, and come again when more is."""
        with board.writing:
            with board.lock:
                body = board.agent.take(time.monotonic(), datetime.now(UTC))
            if body is None:
                return
            try:
                board.stored = self._write(board, body["status"])
                board.backoff.reset()
                wait_s = 0.0
            except AwayError:
                board.agent.failed()
                board.stored, wait_s = None, board.backoff.next_s()
        with board.lock:
            due_s = max(board.agent.next_s(), time.monotonic() + wait_s)
        self.timeline.at(due_s, lambda: self._report(board))
        self._open(board)

    def _write(self, board: Board, status: Object) -> Object:
        """Write what is other than the server has, as an agent does, and return what it has then."""
        stored_status = board.stored
        body = (
            patch(None, PowerNodeStatus.model_validate(status))
            if stored_status is None
            else {"status": difference(stored_status, status)}
        )
        answer = self._api.merge_patch(POWER_NODES.path(board.name, subresource="status"), body)
        stored: Object = answer["status"]
        return stored

    def _at_the_gate(self, board: Board, pod: PodReplay) -> None:
        self._show(pod, pod.at_the_gate())
        with board.lock:
            board.waiting.append(pod)
        self._open(board)

    def _open(self, board: Board) -> None:
        with board.lock:
            through = [pod for pod in board.waiting if board.agent.gate_open(pod.session)]
            board.waiting = [pod for pod in board.waiting if pod not in through]
        for pod in through:
            self._show(pod, pod.running())
            now_s = time.monotonic()
            with board.lock:
                board.agent.training(pod.session, now_s)
                due_s = board.agent.next_s()
            self.timeline.at(due_s, lambda: self._report(board))
            self.timeline.at(now_s + self._job_s, lambda pod=pod: self._show(pod, pod.succeeded()))

    def _show(self, pod: PodReplay, status: Object) -> None:
        """Write a pod's status, as often as it takes."""
        backoff = Backoff(0.2, 5.0)
        while not self.timeline.stopped.is_set():
            try:
                self._api.merge("Pod by kubelets", f"{pod.path}/status", {"status": status})
                return
            except AwayError:
                self.timeline.stopped.wait(backoff.next_s())


def main() -> int:
    """Serve until told to end; 1 if something went wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kubeconfig", type=Path, required=True)
    options.add_argument("--nodes", type=int, required=True)
    options.add_argument("--namespace", required=True)
    options.add_argument("--speed", type=float, default=4.0, help="how much faster than recorded the agents are")
    options.add_argument("--job-seconds", type=float, default=30.0)
    arguments = options.parse_args()
    api = Api(arguments.kubeconfig)
    replay = Replay(api, arguments.nodes, arguments.namespace, arguments.speed, arguments.job_seconds)
    stop_signal = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: (stop_signal.set(), replay.timeline.stopped.set()))
    replay.join()
    for path, handle in ((POWER_NODES.path(), replay.power_node), ("/api/v1/pods", replay.pod)):
        follow = functools.partial(replay.follow, path, handle)
        threading.Thread(target=replay.timeline.guard, args=(follow,), daemon=True).start()
    print(READY, flush=True)
    replay.timeline.run()
    print(json.dumps(api.writes), flush=True)
    return 0 if stop_signal.is_set() else 1


if __name__ == "__main__":
    sys.exit(main())
