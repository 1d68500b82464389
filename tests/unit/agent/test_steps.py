"""Steps arrive as datagrams of a container that nobody trusts: what counts is counted, all else is dropped and said."""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from powertrain_agent.steps import (
    HEADER,
    MAX_BATCH,
    ForeignError,
    Kind,
    MalformedError,
    SessionDir,
    StepCounter,
    StepReceiver,
    StepsSeen,
    TrainingSaid,
    parse,
)

UID = "3f1c7a52-0000-4000-8000-000000000001"


def packed(
    sequence: int = 0,
    count: int = 1,
    total: int = 1,
    at_s: float = 10.0,
    kind: int = 1,
    uid: str = UID,
    rank: int = 0,
    sender: int = 7,
    value: float = 0.0,
    magic: bytes = b"PT",
    version: int = 1,
) -> bytes:
    uid_bytes = uid.encode()
    header = HEADER.pack(
        magic, version, kind, rank, len(uid_bytes), 42, count, sender, sequence, int(at_s * 1e9), total, value
    )
    return header + uid_bytes


def test_two_datagrams_give_the_time_of_the_steps_between_them() -> None:
    counter = StepCounter(UID)
    assert counter.take(packed(), 100.0) == StepsSeen(1, 100.0, None)
    message = counter.take(packed(1, count=4, total=5, at_s=10.2), 100.3)
    assert isinstance(message, StepsSeen)
    assert (message.count, message.at_s, message.duration_s) == (4, 100.3, pytest.approx(0.2))


@pytest.mark.parametrize(
    ("sent_s", "ended_s"),
    [(99.97, 99.97), (42.0, 99.9), (200.0, 100.0)],
    ids=["as the sender says", "not before the last look", "not in the future"],
)
def test_a_datagram_that_waited_tells_when_its_steps_ended(sent_s: float, ended_s: float) -> None:
    message = StepCounter(UID).take(packed(at_s=sent_s), 100.0, since_s=99.9)
    assert message is not None
    assert message.at_s == pytest.approx(ended_s)


def test_steps_of_a_lost_datagram_are_counted_by_the_running_total() -> None:
    counter = StepCounter(UID)
    counter.take(packed(), 0.0)
    message = counter.take(packed(3, total=4, at_s=10.3), 0.0)
    assert isinstance(message, StepsSeen)
    assert (message.count, counter.dropped.lost) == (3, 2)


def test_simulated_time_scales_the_steps() -> None:
    counter = StepCounter(UID, time_scale=20.0)
    counter.take(packed(), 0.0)
    message = counter.take(packed(1, total=2, at_s=10.1), 0.0)
    assert isinstance(message, StepsSeen)
    assert message.duration_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PT",
        os.urandom(200),
        packed()[:-1],
        packed() + b"x",
        packed(magic=b"XX"),
        packed(version=9),
        packed(kind=7),
        packed(count=0),
        packed(count=2, total=1),
        packed(kind=2, count=3, total=3),
        packed(value=float("nan")),
        struct.pack("<2sBBHHIIQQqQd", b"PT", 1, 1, 0, 65, 1, 1, 1, 0, 0, 1, 0.0) + b"a" * 65,
    ],
)
def test_malformed_datagrams_are_counted_and_dropped(data: bytes) -> None:
    counter = StepCounter(UID)
    assert counter.take(data, 0.0) is None
    assert counter.dropped.malformed == 1


@pytest.mark.parametrize("data", [packed(uid="another"), packed(rank=1)])
def test_datagrams_of_others_are_counted_and_dropped(data: bytes) -> None:
    counter = StepCounter(UID)
    assert counter.take(data, 0.0) is None
    assert counter.dropped.foreign == 1


def test_a_container_that_was_told_no_uid_is_heard_on_its_own_socket() -> None:
    assert parse(packed(uid=""), UID).kind is Kind.STEP


def test_a_repeated_datagram_does_not_count_twice() -> None:
    counter = StepCounter(UID)
    counter.take(packed(5), 0.0)
    assert counter.take(packed(5), 0.0) is None
    assert counter.take(packed(4), 0.0) is None


def test_invented_senders_do_not_fill_the_memory() -> None:
    counter = StepCounter(UID)
    for sender in range(1000):
        counter.take(packed(sender=sender), 0.0)
    assert len(counter._last) <= 64


def test_an_epoch_between_two_steps_does_not_disturb_their_time() -> None:
    counter = StepCounter(UID)
    counter.take(packed(), 0.0)
    assert counter.take(packed(1, kind=2, total=1, at_s=10.05, value=3.0), 5.0) == TrainingSaid(Kind.EPOCH, 5.0, 3.0)
    message = counter.take(packed(2, total=2, at_s=10.1), 0.0)
    assert isinstance(message, StepsSeen)
    assert message.duration_s == pytest.approx(0.1)


def test_what_comes_before_the_first_step_does_not_become_its_time() -> None:
    counter = StepCounter(UID)
    assert counter.take(packed(0, kind=4, total=0, value=1.0), 5.0) == TrainingSaid(Kind.DEVICE, 5.0, 1.0)
    assert counter.take(packed(1, at_s=10.001), 5.1) == StepsSeen(1, 5.1, None)
    message = counter.take(packed(2, total=2, at_s=10.201), 5.3)
    assert isinstance(message, StepsSeen)
    assert message.duration_s == pytest.approx(0.2)


def vectors() -> list[dict[str, object]]:
    path = Path(__file__).parents[1] / "sdk" / "vectors.json"
    if not path.exists():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    return list(content["datagrams"] if isinstance(content, dict) else content)


@pytest.mark.skipif(not vectors(), reason="the SDK's vectors are not there")
def test_the_published_vectors_are_understood() -> None:
    for vector in vectors():
        data = bytes.fromhex(str(vector["hex"]))
        uid = data[HEADER.size :].decode("ascii", "replace")
        if vector["valid"]:
            understood, fields = parse(data, uid), vector["fields"]
            assert isinstance(fields, dict)
            assert {name: getattr(understood, name) for name in ("kind", "sender", "sequence", "count", "total")} == {
                name: fields[name] for name in ("kind", "sender", "sequence", "count", "total")
            }
            assert (understood.at_s, understood.value) == (fields["at_ns"] / 1e9, fields["value"])
        else:
            with pytest.raises((MalformedError, ForeignError)):
                parse(data, "3f1c7a52-0000-4000-8000-000000000001")


def test_the_sdk_and_the_receiver_understand_each_other(tmp_path: Path) -> None:
    """A real process with the real SDK, below a directory whose path is longer than a socket's address may be."""
    base = tmp_path / ("deep-" * 30)
    base.mkdir()
    directory = SessionDir(base, UID)
    receiver = StepReceiver(directory)
    short = tmp_path / "s"
    short.symlink_to(directory.path)
    code = "import powertrain_sdk as s; s.step(); s.step(); s.step(); s.epoch(); s.steps.hook_device(False)"
    environment = {**os.environ, "POWERTRAIN_SESSION_DIR": str(short), "POWERTRAIN_SESSION_UID": UID}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    messages = receiver.take()
    receiver.close()
    training_values = [(item.kind, item.value) for item in messages if isinstance(item, TrainingSaid)]
    assert training_values == [(Kind.EPOCH, 1.0), (Kind.DEVICE, 0.0)]
    assert sum(item.count for item in messages if isinstance(item, StepsSeen)) == 3
    assert receiver.counter.dropped.malformed == receiver.counter.dropped.foreign == 0


def test_a_container_that_floods_its_socket_costs_a_bounded_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count()

    class Flooded(socket.socket):
        def recv(self, bufsize: int, flags: int = 0) -> bytes:
            number = next(numbers)
            return packed(number, total=number + 1, at_s=10.0 + number)

    monkeypatch.setattr(socket, "socket", Flooded)
    receiver = StepReceiver(SessionDir(tmp_path, UID), clock=lambda: 100.0)
    assert [len(receiver.take()) for _ in range(2)] == [MAX_BATCH, MAX_BATCH]
    receiver.close()


def test_a_socket_that_a_killed_agent_left_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = SessionDir(tmp_path, UID)
    directory.open_socket().close()
    short = tmp_path / "s"
    short.symlink_to(directory.path)
    with directory.open_socket() as second, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        monkeypatch.chdir(tmp_path)
        sender.sendto(b"hello", "s/steps.sock")
        assert second.recv(100) == b"hello"


def test_the_ready_file_names_session_boot_and_mode_and_goes_again(tmp_path: Path) -> None:
    directory = SessionDir(tmp_path, UID)
    directory.write_ready("boot-1", "12c_1_2_3")
    ready = directory.path / "ready"
    assert json.loads(ready.read_text()) == {"session": UID, "boot_id": "boot-1", "mode": "12c_1_2_3"}
    directory.close_gate()
    assert not ready.exists()


@pytest.mark.parametrize("uid", ["", "../x", ".hidden", "a/b"])
def test_a_uid_that_would_leave_the_directory_is_refused(tmp_path: Path, uid: str) -> None:
    with pytest.raises(ValueError, match="names a directory"):
        SessionDir(tmp_path, uid)
