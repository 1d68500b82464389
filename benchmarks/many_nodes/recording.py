"""What an agent writes during a session that starts from an exact profile, recorded from a real one.

    python -m benchmarks.many_nodes.recording

The agent's loop, link and status writer on a simulated board, in virtual time; only the network is missing. Written are
the transitions (what is written at once), each with the seconds since its cause and the fields that changed. Figures
in between depend on the pace alone, so the replay makes them itself. A test runs the agent again and compares.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from powertrain.api.v1alpha1 import PROTOCOL, NodeFigures, NodePolicy, PowerShare, SessionSpec, SessionStatus
from powertrain_agent.cluster import about
from powertrain_agent.hardware.board import CorePolicy, discover
from powertrain_agent.link import Link, LinkSettings
from powertrain_agent.link.status import SETTLE_S, Pace
from powertrain_agent.simulate import ManualClock, SimulatedBoard, workloads
from powertrain_agent.simulate.simulation import NOON, Simulation
from powertrain_kube.log import Log
from powertrain_kube.patches import patched

Object = dict[str, Any]
FILE = Path(__file__).with_name("recording.json")
BOARDS = {"orin-agx": 30.0, "orin-nano": 8.0}  # with the watts that a job may take there
WORKLOAD, POD, SESSION = "resnet18", "pod-1", "session-1"
STRATEGIES = ("transfer",)
PROFILE_MODES = 8
TRAINING_S = 32.0
# What makes an agent write: a new envelope, another generation of it, a training that begins, a release, no envelope.
CAUSES = ("envelope", "generation", "training", "release", "none")
_DECIDED = ("phase", "gateOpen", "verified", "reason", "restored", "observedGeneration", "mode")


@dataclass(frozen=True)
class Write:
    """One write: when, and the session's fields that are others than before (None: absent now)."""

    after_s: float
    session: Mapping[str, Any]
    conditions: tuple[Object, ...]

    def wire(self) -> Object:
        """Return it as JSON."""
        return {"afterSeconds": self.after_s, "session": dict(self.session), "conditions": list(self.conditions)}


@dataclass(frozen=True)
class Recording:
    """One kind of board: what its agent says of itself, what it writes after each cause, and a profile."""

    status: Object
    writes: Mapping[str, tuple[Write, ...]]
    profile: Object

    def wire(self) -> Object:
        """Return it as JSON."""
        writes = {cause: [write.wire() for write in writes_of_cause] for cause, writes_of_cause in self.writes.items()}
        return {"status": self.status, "writes": writes, "profile": self.profile}


def load() -> dict[str, Recording]:
    """Return the recordings by board."""
    return {
        board: Recording(
            raw["status"],
            {
                cause: tuple(Write(w["afterSeconds"], w["session"], tuple(w["conditions"])) for w in writes_of_cause)
                for cause, writes_of_cause in raw["writes"].items()
            },
            raw["profile"],
        )
        for board, raw in json.loads(FILE.read_text(encoding="utf-8")).items()
    }


class Witness:
    """A real agent on a simulated board whose writes are kept instead of sent; `run` lets virtual time pass."""

    def __init__(self, board: str, root: Path) -> None:
        self._clock, log = ManualClock(), Log(io.StringIO())
        self._epoch_s = self._clock()
        self.board = SimulatedBoard.create(root, board, now=self._clock, timeout_s=None)
        self.simulation = Simulation(self.board, self._clock, log)
        self.bodies: list[tuple[float, Object]] = []  # when, and the object after that write
        self._stored: Object = {}
        self._reported_count = 0
        settings = LinkSettings(board, "powertrain-system", "agent")
        self.link = Link(settings, self, self, log, clock=self._clock, figures=self._figures, now=self._now)
        knobs = discover(self.board.sysfs)
        modes = len(knobs.space(CorePolicy.FIXED, 1))
        self.link.writer.update(lambda _: about(knobs, CorePolicy.FIXED, modes, STRATEGIES))
        self.link.wellness()
        handle = self.simulation.sessions.handle

        def watched(event: object) -> None:
            handle(event)  # type: ignore[arg-type]
            self._flush()

        self.simulation.sessions.handle = watched  # type: ignore[method-assign, assignment]

    @property
    def now_s(self) -> float:
        """Return the virtual time."""
        return self._clock()

    def power_node(self, session: Object | None, release: str | None = None) -> None:
        """Let the operator write the PowerNode's spec."""
        spec = {"session": session, "release": release, "policy": NodePolicy().wire()}
        self.link.delivered({"metadata": {"uid": "1"}, "spec": {k: v for k, v in spec.items() if v is not None}})
        self._flush()

    def run(self, seconds: float, until: Callable[[SessionStatus], bool]) -> None:
        """Let time pass until the last report fits."""
        if not self.simulation.run(seconds, lambda: bool(self.simulation.statuses) and until(self.simulation.status)):
            raise RuntimeError(f"not within {seconds:g} s; the last report: {self.simulation.status.message}")

    def _flush(self) -> None:
        for status in self.simulation.statuses[self._reported_count :]:
            self.link.report(status)
            while self.link.writer.due_in_s() == 0.0:
                self.link.writer.write()
        self._reported_count = len(self.simulation.statuses)
        while self.link.writer.due_in_s() == 0.0:
            self.link.writer.write()

    def _figures(self) -> NodeFigures:
        return NodeFigures(watts=10.0, temperature_celsius=45.0, at=self._now().strftime("%Y-%m-%dT%H:%M:%SZ"))

    def _now(self) -> datetime:
        return NOON + timedelta(seconds=self._clock() - self._epoch_s)

    # What the link tells the loop.

    def envelope(self, spec: SessionSpec | None, release: str | None, refused: bool = False) -> None:
        """Take what the PowerNode asks now."""
        self.simulation.envelope(spec, release)

    def policy(self, policy: NodePolicy | None) -> None:
        """Take the site's policy."""
        self.simulation.policy(policy)

    def shares(self, shares: tuple[PowerShare, ...]) -> None:
        """Take the board's shares of PowerBudgets."""
        self.simulation.shares(*shares)

    def power_node_gone(self) -> None:
        """Never happens here."""

    def api_away(self, since: float) -> None:
        """Never happens here."""

    def api_back(self) -> None:
        """Never happens here."""

    # The API server.

    def list(self, path: str, query: Mapping[str, str]) -> Object:
        """Never asked: no thread runs."""
        raise NotImplementedError

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Never asked: no thread runs."""
        raise NotImplementedError

    def apply(self, path: str, body: Object) -> Object:
        """Never asked: no Lease is kept."""
        raise NotImplementedError

    def merge_patch(self, path: str, body: Object) -> Object:
        """Keep what a server would have after that, and answer it."""
        self._stored = json.loads(json.dumps(patched(self._stored, body)))
        self.bodies.append((self._clock(), self._stored))
        return self._stored


def envelope(watts: float, generation: int, pods: tuple[str, ...], prior: Object | None = None) -> Object:
    """Return an envelope as the operator would write it."""
    spec = {
        "protocol": PROTOCOL,
        "uid": SESSION,
        "generation": generation,
        "job": {"namespace": "bench", "name": "job"},
        "podUIDs": list(pods),
        "limits": {"powerWatts": watts},
        "workload": {"name": WORKLOAD, "batchSize": workloads.get(WORKLOAD).batch_size},
        "plan": {"maxModes": PROFILE_MODES},
        "prior": prior,
    }
    return SessionSpec.model_validate(spec).wire()


def profile(board: str, watts: float, root: Path) -> Object:
    """Return the result of a first session, which had to measure."""
    witness = Witness(board, root)
    witness.board.add_pod(POD)
    witness.power_node(envelope(watts, 1, (POD,)))
    witness.run(30.0, lambda status: status.gate_open)
    witness.simulation.train(WORKLOAD)
    witness.run(900.0, lambda status: status.phase == "Running")
    result = witness.simulation.status.result
    assert result is not None
    return result.wire()


def record(board: str, watts: float, profile_object: Object, root: Path) -> Recording:
    """Return what an agent writes from an exact profile's envelope to the restored board."""
    witness = Witness(board, root)
    witness.power_node(None)
    first = witness.bodies[-1][1]["status"]
    prior = {"match": "Exact", "samples": profile_object["samples"]}
    witness.simulation.run(0.5)  # a board that waits for a job has been read before it comes
    marks = {"envelope": (witness.now_s, len(witness.bodies))}
    witness.power_node(envelope(watts, 1, (), prior))
    witness.run(30.0, lambda status: status.gate_open)
    witness.board.add_pod(POD)
    marks["generation"] = (witness.now_s, len(witness.bodies))
    witness.power_node(envelope(watts, 2, (POD,), prior))
    witness.run(5.0, lambda status: status.observed_generation == 2)
    witness.simulation.run(2 * SETTLE_S)  # it is answered alone
    marks["training"] = (witness.now_s, len(witness.bodies))
    witness.simulation.train(WORKLOAD)
    witness.simulation.run(TRAINING_S)
    witness.simulation.stop_training()
    witness.board.remove_pod(POD)
    marks["release"] = (witness.now_s, len(witness.bodies))
    witness.power_node(envelope(watts, 3, (), prior), SESSION)
    witness.run(60.0, lambda status: status.restored)
    marks["none"] = (witness.now_s, len(witness.bodies))
    witness.power_node(None)
    return Recording(first, _segments(witness.bodies, first, marks), profile_object)


def _segments(
    bodies: list[tuple[float, Object]], first: Object, marks: Mapping[str, tuple[float, int]]
) -> dict[str, tuple[Write, ...]]:
    """Return the transitions after each cause; a write that only brings figures, when they were due, is left out."""
    ends = [marks[cause][1] for cause in CAUSES[1:]] + [len(bodies)]
    segments: dict[str, tuple[Write, ...]] = {}
    session, conditions = {}, first.get("conditions", [])
    written_s = marks[CAUSES[0]][0]
    for cause, end in zip(CAUSES, ends, strict=True):
        began_s, begin = marks[cause]
        writes = []
        for at_s, body in bodies[begin:end]:
            status = body["status"]
            fresh = status.get("session") or {}
            due, written_s = at_s - written_s >= Pace().in_session_s, at_s
            if due and shape(fresh, status["conditions"]) == shape(session, conditions):
                continue
            removals = dict.fromkeys(name for name in session if name not in fresh)
            changed = {name: value for name, value in fresh.items() if session.get(name) != value} | removals
            writes.append(Write(round(at_s - began_s, 1), changed, tuple(status["conditions"])))
            session, conditions = fresh, status["conditions"]
        segments[cause] = tuple(writes)
    return segments


def shape(session: Mapping[str, Any], conditions: Sequence[Object]) -> Object:
    """Return what of a report is a decision, not a figure: phase, verdicts, and which fields there are."""
    return {
        **{name: session.get(name) for name in _DECIDED},
        "node": [(c["type"], c["status"], c["reason"]) for c in conditions],
        "session": [(c["type"], c["status"], c["reason"]) for c in session.get("conditions", ())],
        "fields": sorted(name for name, value in session.items() if value is not None),
    }


def shapes(recording: Recording) -> dict[str, list[Object]]:
    """Return the decisions after each cause, in order; a mode is told by when it first came, whatever its clocks."""
    session: Object = {}
    modes: dict[str | None, int] = {}
    decisions: dict[str, list[Object]] = {}
    for cause in CAUSES:
        decisions[cause] = []
        for write in recording.writes[cause]:
            session = {**session, **write.session}
            mode = modes.setdefault(session.get("mode"), len(modes))
            decisions[cause].append({**shape(session, write.conditions), "mode": mode})
    return decisions


def main() -> None:
    """Record every kind of board."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        recordings = {}
        for board, watts in BOARDS.items():
            first_profile = profile(board, watts, Path(folder) / f"{board}-first")
            recordings[board] = record(board, watts, first_profile, Path(folder) / board).wire()
    FILE.write_text(json.dumps(recordings, separators=(",", ":")) + "\n", encoding="utf-8")
    for board, recording in recordings.items():
        modes = len(recording["profile"]["samples"]["stepSeconds"].split())
        print(f"{board}: {sum(map(len, recording['writes'].values()))} writes, a profile of {modes} modes")


if __name__ == "__main__":
    main()
