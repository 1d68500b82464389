"""Clients of /metrics and /healthz that connect and say nothing, trickle bytes, or send without end."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge

from powertrain_devcluster.testing.waits import wait_for
from powertrain_kube.bounded_http import BoundedHandler, BoundedServer, Bounds
from powertrain_kube.health import HealthServer

DESCRIPTORS = 256
SERVER = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))
from prometheus_client import CollectorRegistry, Gauge
from powertrain_kube.health import HealthServer
registry = CollectorRegistry()
Gauge("watts", "", registry=registry).set(12)
server = HealthServer(registry, lambda: "", port=0, address="127.0.0.1")
server.start()
print(server.port, flush=True)
sys.stdin.read()
server.stop()
"""
# Threads of the interpreter beside those of connections: the main one and the one that accepts.
OTHER_THREADS = 2


@dataclass(frozen=True)
class ServerProcess:
    port: int
    pid: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def scrape(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def status(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


@pytest.fixture
def served() -> Iterator[ServerProcess]:
    """The server in a process of its own, whose threads, descriptors and memory can be counted."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield ServerProcess(int(process.stdout.readline()), process.pid)
        process.communicate()


def test_silent_connections_beyond_the_descriptor_limit_keep_no_scrape_out(served: ServerProcess) -> None:
    assert "watts 12.0" in served.scrape()
    before_kib, before_descriptors = served.status("VmRSS"), served.descriptors()
    with contextlib.ExitStack() as stack:
        for _ in range(DESCRIPTORS + 100):
            stack.enter_context(served.connect())
        assert "watts 12.0" in served.scrape()
        # A thread frees its slot some instructions before it ends.
        wait_for("few threads", lambda: served.status("Threads"), lambda n: n <= Bounds().connections + OTHER_THREADS)
        assert served.descriptors() <= before_descriptors + Bounds().connections
        assert served.status("VmRSS") - before_kib < 16 * 1024


def test_requests_without_an_end_take_no_memory(served: ServerProcess) -> None:
    served.scrape()
    before_kib = served.status("VmRSS")
    with contextlib.ExitStack() as stack:
        for _ in range(Bounds().connections):
            client = stack.enter_context(served.connect())
            client.sendall(b"GET /metrics HTTP/1.0\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    client.sendall(b"X-Long: " + b"a" * 60_000 + b"\r\n")
        assert "watts 12.0" in served.scrape()
        assert served.status("VmRSS") - before_kib < 16 * 1024


def is_ended(client: socket.socket) -> bool:
    """Wait for the server to say something; return whether it closed the connection instead."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


class NowClock:
    """A clock that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Announcing(BoundedHandler):
    """A handler that tells when a connection has its thread."""

    has_begun: threading.Event

    def setup(self) -> None:
        super().setup()
        self.has_begun.set()


@pytest.fixture
def clocked() -> Iterator[tuple[BoundedServer, NowClock]]:
    """A server with two slots and a clock of the test's own; it polls fast."""
    clock = NowClock()
    Announcing.has_begun = threading.Event()
    server = BoundedServer(("127.0.0.1", 0), Announcing, Bounds(connections=2, seconds=10.0), clock)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server, clock
    server.shutdown()
    server.end_all()
    server.server_close()
    thread.join(timeout=5)


def test_a_connection_that_trickles_bytes_is_ended_in_time(clocked: tuple[BoundedServer, NowClock]) -> None:
    server, clock = clocked
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=10) as client:
        client.sendall(b"GET /met")
        assert Announcing.has_begun.wait(10)
        clock.now_s = 5.0
        client.sendall(b"rics")
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.settimeout(10)
        clock.now_s = 10.1
        assert is_ended(client)


def test_the_oldest_silent_connection_makes_room(clocked: tuple[BoundedServer, NowClock]) -> None:
    server, _ = clocked
    address = ("127.0.0.1", int(server.server_address[1]))
    with contextlib.ExitStack() as stack:
        first, second, third = (stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(3))
        assert is_ended(first)
        third.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert third.recv(12) == b"HTTP/1.0 501"
        second.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert second.recv(12) == b"HTTP/1.0 501"


class SlowToEnd(BoundedHandler):
    """A handler whose first connection ends only when the test says so, as on a board without a free core."""

    may_end: threading.Event

    def finish(self) -> None:
        self.may_end.wait(10)
        super().finish()


def test_a_connection_waits_for_the_slot_of_one_that_is_slow_to_end() -> None:
    SlowToEnd.may_end = threading.Event()
    server = BoundedServer(("127.0.0.1", 0), SlowToEnd, Bounds(connections=1, seconds=10.0))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    address = ("127.0.0.1", int(server.server_address[1]))
    with socket.create_connection(address), socket.create_connection(address, timeout=10) as second:
        second.sendall(b"GET / HTTP/1.0\r\n\r\n")
        threading.Timer(1.5, SlowToEnd.may_end.set).start()
        assert second.recv(12) == b"HTTP/1.0 501"
    server.shutdown()
    server.server_close()
    thread.join(timeout=5)


def test_a_stop_ends_what_is_still_connected() -> None:
    registry = CollectorRegistry()
    Gauge("watts", "", registry=registry)
    server = HealthServer(registry, lambda: "", port=0, address="127.0.0.1")
    server.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(b"GET")
        server.stop()
        assert is_ended(client)
