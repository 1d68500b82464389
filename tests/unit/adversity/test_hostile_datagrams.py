"""A training says anything at all: the loop guards, what is published fits the API, and a restart goes on."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator

from powertrain.api.v1alpha1 import SessionStatus
from powertrain_agent.governing.events import Tick
from powertrain_agent.steps import HEADER, Kind, StepCounter

from ..agent.scenarios.conftest import UID, Scenario, envelope

U16, U32, U64, I64 = 2**16 - 1, 2**32 - 1, 2**64 - 1, 2**63 - 1
EDGES: dict[str, tuple[float, ...]] = {
    "kind": (0, 1, 2, 3, 4, 255),
    "rank": (0, 1, U16),
    "pid": (0, U32),
    "count": (0, 1, 10**6, 10**6 + 1, U32),
    "sender": (0, 1, U64),
    "sequence": (0, 1, 10**12, 10**12 + 1, U64),
    "at_ns": (-I64 - 1, -1, 0, 10**18, I64),
    "total": (0, 1, 10**12, 10**12 + 1, U64),
    "value": (-1e300, -1.0, -0.0, 0.5, 1e9, 1e12, 1e15, 1e300, float("inf"), float("-inf"), float("nan")),
}
USUAL = {
    "kind": 1,
    "rank": 0,
    "pid": 1,
    "count": 1,
    "sender": 1,
    "sequence": 1,
    "at_ns": 10**9,
    "total": 1,
    "value": 0.0,
}
LARGEST_JSON = 2**53


def packed(**fields: float) -> bytes:
    f = {**USUAL, **fields}
    uid = UID.encode()
    return (
        HEADER.pack(
            b"PT",
            1,
            int(f["kind"]),
            int(f["rank"]),
            len(uid),
            int(f["pid"]),
            int(f["count"]),
            int(f["sender"]),
            int(f["sequence"]),
            int(f["at_ns"]),
            int(f["total"]),
            f["value"],
        )
        + uid
    )


def hostile() -> Iterator[bytes]:
    """Every edge of every field beside usual ones, every pair with the kinds that count, then noise."""
    for name, edges in EDGES.items():
        yield from (packed(**{name: edge}) for edge in edges)
    for kind, (name, edges) in itertools.product(Kind, EDGES.items()):
        if name not in ("kind", "sender", "sequence"):
            datagrams = [{"kind": kind, "sender": 7, "sequence": place, name: edge} for place, edge in enumerate(edges)]
            yield from (packed(**fields) for fields in datagrams)
    dice = random.Random(18)
    for _ in range(500):
        yield packed(**{name: dice.choice(edges) for name, edges in EDGES.items()})
        yield dice.randbytes(dice.randrange(0, 130))


def numbers(value: object) -> Iterator[float]:
    """Every number in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def say(scenario: Scenario, datagrams: Iterator[bytes]) -> None:
    """Let the training send; what counts goes into the loop as it does from the socket."""
    counter = StepCounter(UID)
    for data in datagrams:
        event = counter.take(data, scenario.clock())
        if event is not None:
            scenario.simulation.sessions.handle(event)


def test_whatever_a_training_says_the_loop_guards_and_a_restart_goes_on(running: Scenario) -> None:
    say(running, hostile())
    assert running.simulation.sessions.failures.count == 0
    running.run(40)
    running.restart_agent()
    running.simulation.envelope(envelope())
    running.run(10)
    assert running.simulation.sessions.failures.count == 0
    assert running.is_running()
    assert running.true_w() <= 30.0
    running.simulation.stop_training()
    running.board.remove_pod(envelope().pod_uids[0])
    running.simulation.envelope(None, release=UID)
    running.run(20, lambda: running.status.restored)
    for status in running.simulation.statuses:
        again = json.loads(status.model_dump_json(by_alias=True, exclude_none=True))
        assert SessionStatus.model_validate(again) == status
        assert all(abs(number) <= LARGEST_JSON for number in numbers(again) if isinstance(number, int))


def damaged(text: str) -> Iterator[str]:
    """A profile with each of its values replaced by ones that make no sense, and files that hold no profile."""
    whole = json.loads(text)
    for name in whole:
        yield from (json.dumps({**whole, name: value}) for value in (-1, [None]))
    yield from (json.dumps({key: whole[key] for key in whole if key != name}) for name in ("mode", "steps", "reports"))
    yield from ("", "[]", "{", "null", '"x"', "[" * 100_000, json.dumps({**whole, "energy_j": float("nan")}))


def test_a_saved_session_that_makes_no_sense_is_guarded_after_a_restart(running: Scenario) -> None:
    running.simulation.strict = False
    profile = running.simulation.state_dir / "profile.json"
    good = profile.read_text()
    for text in damaged(good):
        profile.write_text(text)
        running.restart_agent()
        running.simulation.sessions.handle(Tick(running.clock()))
        assert running.simulation.sessions.record is not None, text[:200]
        assert running.true_w() <= 30.0, text[:200]


def test_a_figure_that_an_earlier_release_saved_costs_no_measured_mode(running: Scenario) -> None:
    profile = running.simulation.state_dir / "profile.json"
    measured = running.status.profiling.measured
    profile.write_text(json.dumps({**json.loads(profile.read_text()), "epochs": -1, "steps": 2**64, "accuracy": 1e300}))
    running.restart_agent()
    running.simulation.envelope(envelope())
    running.run(3)
    assert running.is_running()
    assert running.status.profiling.measured == measured > 0
    assert (running.status.training.epoch, running.status.training.accuracy) == (None, None)
