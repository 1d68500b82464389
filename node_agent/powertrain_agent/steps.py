"""Steps: the receiver that makes step times of a training's datagrams.

The format is described in docs/reference/sdk.md. The training is not trusted: every field is checked, and what is
malformed, foreign or lost is counted and changes nothing.
"""

from __future__ import annotations

import math
import struct
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum

from powertrain_agent.session_dir import SessionDir

HEADER = struct.Struct("<2sBBHHIIQQqQd")
MAGIC, VERSION, UID_LIMIT = b"PT", 1, 64
RECEIVE_BYTES = 4096  # far more than a datagram of this protocol
MAX_SENDERS = 64  # an untrusted container may invent senders; only the latest are remembered
MAX_STEPS = 1_000_000  # more steps in one datagram than any training makes in its 20 ms
MAX_NUMBER = 10**12  # of steps, datagrams and epochs: a thousand a second for thirty years
MAX_AT_NS = 10**18  # of a clock that starts with the board: thirty years
MAX_ACCURACY = 1e9  # also of a score or a loss that somebody tells as the accuracy
STEP_S = (1e-6, 86_400.0)  # no step is shorter, or longer than a day; the time of any other is not believed
MAX_BATCH = 64  # datagrams taken in one go: a container that floods its socket does not hold up the loop


class Kind(IntEnum):
    """What a datagram says."""

    STEP = 1
    EPOCH = 2
    REACHED = 3
    DEVICE = 4


class MalformedError(ValueError):
    """Bytes that are no datagram of this protocol."""


class ForeignError(ValueError):
    """A datagram of another session or of a process that should not send."""


@dataclass(frozen=True)
class Datagram:
    """One message of the SDK, checked."""

    kind: Kind
    sender: int
    sequence: int
    count: int
    total: int
    at_s: float  # of the sender's monotonic clock
    value: float


@dataclass(frozen=True)
class StepsSeen:
    """Steps that ended; `duration_s` is the time they took together, None where it can't be known (the first)."""

    count: int
    at_s: float
    duration_s: float | None


@dataclass(frozen=True)
class TrainingSaid:
    """An epoch that ended, an accuracy that was reached, or where the training computes (1: GPU, 0: CPU)."""

    kind: Kind
    at_s: float
    value: float


@dataclass
class Dropped:
    """How many datagrams did not count, by reason."""

    lost: int = 0
    malformed: int = 0
    foreign: int = 0


def parse(data: bytes, uid: str) -> Datagram:
    """Return the message in these bytes, or raise MalformedError or ForeignError."""
    if len(data) < HEADER.size:
        raise MalformedError(f"{len(data)} bytes; at least {HEADER.size} are needed")
    magic, version, kind, rank, length, _, count, sender, sequence, at_ns, total, value = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise MalformedError(f"magic {magic!r} version {version}; expected {MAGIC!r} and {VERSION}")
    if kind not in tuple(Kind):
        raise MalformedError(f"kind {kind}; known: {', '.join(str(int(k)) for k in Kind)}")
    if length > UID_LIMIT or len(data) != HEADER.size + length:
        raise MalformedError(f"{len(data)} bytes with a uid of {length}; expected {HEADER.size} + its length (≤ 64)")
    if not 1 <= count <= MAX_STEPS or (kind != Kind.STEP and count != 1):
        raise MalformedError(f"count {count} in a datagram of kind {kind}")
    if not 0 <= at_ns <= MAX_AT_NS or (kind == Kind.STEP and total < count):
        raise MalformedError(f"impossible values: at {at_ns} ns, total {total}, count {count}")
    if total > MAX_NUMBER or sequence > MAX_NUMBER:
        raise MalformedError(f"total {total}, sequence {sequence}; at most {MAX_NUMBER}")
    _check_value(Kind(kind), value)
    payload = data[HEADER.size :]
    # An empty uid comes from a container that was told none; the directory it reached is this session's alone.
    if (payload and payload != uid.encode("ascii", "replace")) or rank != 0:
        raise ForeignError(f"session {payload!r}, local rank {rank}")
    return Datagram(Kind(kind), sender, sequence, count, total, at_ns / 1e9, value)


def _check_value(kind: Kind, value: float) -> None:
    """Refuse a figure that no training reaches: all that read what is published, saved and added up can read it."""
    bounds = {Kind.REACHED: (-MAX_ACCURACY, MAX_ACCURACY), Kind.DEVICE: (0.0, 1.0)}
    lowest, highest = bounds.get(kind, (0.0, float(MAX_NUMBER)))
    if not math.isfinite(value) or not lowest <= value <= highest:
        raise MalformedError(f"value {value} in a datagram of kind {int(kind)}; expected {lowest:g} to {highest:g}")


@dataclass(frozen=True)
class _Last:
    sequence: int
    at_s: float | None  # when the last steps ended; None while none were seen
    total: int


class StepCounter:
    """Turns datagrams into steps with durations. Time is the sender's own, so a busy agent measures nothing wrong."""

    def __init__(self, uid: str, time_scale: float = 1.0) -> None:
        self.uid = uid
        self.dropped = Dropped()
        self._time_scale = time_scale
        self._last: OrderedDict[int, _Last] = OrderedDict()

    def take(self, data: bytes, now_s: float, since_s: float | None = None) -> StepsSeen | TrainingSaid | None:
        """Return what a datagram means at the agent's time `now_s`; None for one that does not count.

        One that has waited since `since_s` at most tells by itself when it was sent: on one host both clocks are the
        kernel's, and a sender that is wrong about it is wrong by no more than that wait.
        """
        try:
            datagram = parse(data, self.uid)
        except MalformedError:
            self.dropped.malformed += 1
            return None
        except ForeignError:
            self.dropped.foreign += 1
            return None
        last = self._last.pop(datagram.sender, None)
        if last is not None and datagram.sequence <= last.sequence:
            self._last[datagram.sender] = last
            self.dropped.malformed += 1
            return None
        if last is not None:
            self.dropped.lost += datagram.sequence - last.sequence - 1
        if since_s is not None:
            now_s = min(now_s, max(since_s, datagram.at_s * self._time_scale))
        if datagram.kind is not Kind.STEP:
            before = last if last is not None else _Last(datagram.sequence, None, datagram.total)
            self._remember(datagram, before.at_s, before.total)
            return TrainingSaid(datagram.kind, now_s, datagram.value)
        self._remember(datagram, datagram.at_s, datagram.total)
        return self._steps(datagram, last, now_s)

    def _steps(self, datagram: Datagram, last: _Last | None, now_s: float) -> StepsSeen:
        if last is None or last.at_s is None:
            return StepsSeen(datagram.count, now_s, None)
        # The running total also holds the steps of datagrams that were lost.
        count = datagram.total - last.total
        duration_s = (datagram.at_s - last.at_s) * self._time_scale
        if count < 1 or not STEP_S[0] <= duration_s / count <= STEP_S[1]:
            return StepsSeen(datagram.count, now_s, None)
        return StepsSeen(count, now_s, duration_s)

    def _remember(self, datagram: Datagram, at_s: float | None, total: int) -> None:
        self._last[datagram.sender] = _Last(datagram.sequence, at_s, total)
        while len(self._last) > MAX_SENDERS:
            self._last.popitem(last=False)


class StepReceiver:
    """Reads what has come to a session's socket whenever it is asked to; nobody is woken for a datagram."""

    def __init__(
        self, directory: SessionDir, clock: Callable[[], float] = time.monotonic, time_scale: float = 1.0
    ) -> None:
        self.counter = StepCounter(directory.uid, time_scale)
        self._clock = clock
        self._socket = directory.open_socket()
        self._socket.setblocking(False)
        self._since_s = clock()

    def take(self) -> list[StepsSeen | TrainingSaid]:
        """Return what counts of that which came since the last call."""
        waiting: list[bytes] = []
        with suppress(BlockingIOError):
            while len(waiting) < MAX_BATCH:
                waiting.append(self._socket.recv(RECEIVE_BYTES))
        since_s, self._since_s = self._since_s, self._clock()
        events = [self.counter.take(data, self._since_s, since_s) for data in waiting]
        return [event for event in events if event is not None]

    def close(self) -> None:
        """Receive nothing more; the directory stays."""
        self._socket.close()
