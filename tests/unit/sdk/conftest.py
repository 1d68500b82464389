"""An agent's end of a session: the real socket in a directory of its own, and what arrives there."""

import os
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

UID = "3f1c7a52-0000-4000-8000-000000000001"
# Written from docs/reference/sdk.md, not taken from the SDK.
LAYOUT = struct.Struct("<2sBBHHIIQQqQd")
SDK = Path(__file__).resolve().parents[3] / "sdk"


@dataclass(frozen=True)
class ReceivedDatagram:
    kind: int
    pid: int
    count: int
    sender: int
    sequence: int
    at_ns: int
    total: int
    value: float
    uid: str


def decode(data: bytes) -> ReceivedDatagram:
    magic, version, kind, rank, length, pid, count, sender, sequence, at_ns, total, value = LAYOUT.unpack_from(data)
    assert (magic, version, rank, len(data)) == (b"PT", 1, 0, LAYOUT.size + length)
    return ReceivedDatagram(
        kind, pid, count, sender, sequence, at_ns, total, value, data[LAYOUT.size :].decode("ascii")
    )


class Session:
    """The agent's end: binds the socket, reads what is in it, goes away and comes back."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._socket: socket.socket | None = None
        self._read: list[ReceivedDatagram] = []

    @property
    def environ(self) -> dict[str, str]:
        return {"POWERTRAIN_SESSION_DIR": str(self.directory), "POWERTRAIN_SESSION_UID": UID}

    def listen(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.directory / "steps.sock"))

    def leave(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            (self.directory / "steps.sock").unlink()

    def datagrams(self) -> list[ReceivedDatagram]:
        """Return everything that has arrived; the sender's call has returned, so nothing is on its way."""
        self._read_all()
        datagrams, self._read = self._read, []
        return datagrams

    def _read_all(self) -> None:
        assert self._socket is not None
        while True:
            try:
                self._read.append(decode(self._socket.recv(4096, socket.MSG_DONTWAIT)))
            except BlockingIOError:
                return

    def _keep_reading(self, until: threading.Event) -> None:
        # The kernel keeps ten datagrams or so (net.unix.max_dgram_qlen) for one who does not read.
        assert self._socket is not None
        while not until.is_set():
            if select.select([self._socket], [], [], 0.01)[0]:
                self._read_all()

    def run(
        self, *arguments: str, environ: Mapping[str, str] | None = None, auto: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        """Run Python as a training of this session, with the automatic hook if asked."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("POWERTRAIN", "PYTHON"))}
        path = {"PYTHONPATH": str(SDK / "powertrain_sdk" / "auto" if auto else SDK)}
        whole = {**inherited, **path, "OMP_NUM_THREADS": "1", **self.environ, **(environ or {})}
        ended = threading.Event()
        reader = threading.Thread(target=self._keep_reading, args=(ended,))
        reader.start()
        try:
            return subprocess.run([sys.executable, *arguments], env=whole, capture_output=True, text=True, check=False)
        finally:
            ended.set()
            reader.join()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    directory = tmp_path / "session"
    directory.mkdir()
    new_session = Session(directory)
    new_session.listen()
    yield new_session
    new_session.leave()


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()
