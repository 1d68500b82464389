"""BoundedServer: an HTTP server whose threads, descriptors and memory stay bounded, whoever connects."""

from __future__ import annotations

import contextlib
import io
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Bounds:
    """What all clients together may take."""

    # Two Prometheus servers, three probes and a person need a third of this.
    connections: int = 16
    # From the accept to the last byte of the answer; Prometheus itself gives up after 10 s by default.
    seconds: float = 10.0
    # Of one request, headers included. Prometheus sends less than 1 KiB.
    request_bytes: int = 16 * 1024


DEFAULT = Bounds()


class BoundedServer(ThreadingHTTPServer):
    """Serves each connection in a thread of its own, up to a number of connections.

    One connection more ends the oldest that has not sent a request yet, so silent connections never keep a scrape out.
    A connection that takes too long is ended, whether it waits for bytes or trickles them.
    """

    daemon_threads = True
    # A connection that finds this queue full tries again only after a second.
    request_queue_size = 512

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BoundedHandler],
        bounds: Bounds = DEFAULT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bounds = bounds
        self._clock = clock
        self._slots = threading.Semaphore(bounds.connections)
        self._lock = threading.Lock()
        # When each connection was accepted, and which of them have sent their request.
        self._accepted_s: dict[Any, float] = {}
        self._requested: set[Any] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the connection's thread once there is a slot for it."""
        if not self._slots.acquire(blocking=False):
            self._end_oldest()
            # A busy board may take seconds to run the thread of the one that was ended.
            if not self._slots.acquire(timeout=self.bounds.seconds):
                super().shutdown_request(request)
                return
        with self._lock:
            self._accepted_s[request] = self._clock()
        super().process_request(request, client_address)

    def requested(self, request: Any) -> None:
        """Take note that a connection has sent a whole request: it is ended only after all that have not."""
        with self._lock:
            if request in self._accepted_s:
                self._requested.add(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and free its slot; the base class calls this once for each, also after a failure."""
        super().shutdown_request(request)
        with self._lock:
            was_open = self._accepted_s.pop(request, None) is not None
            self._requested.discard(request)
        if was_open:
            self._slots.release()

    def service_actions(self) -> None:
        """End the connections that took too long; the base class calls this several times a second."""
        oldest_s = self._clock() - self.bounds.seconds
        with self._lock:
            late = [request for request, accepted_s in self._accepted_s.items() if accepted_s < oldest_s]
        for request in late:
            _end(request)

    def end_all(self) -> None:
        """End every connection."""
        with self._lock:
            connections = list(self._accepted_s)
        for request in connections:
            _end(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Show what went wrong, unless a client left or was ended."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def _end_oldest(self) -> None:
        with self._lock:
            ranked = sorted(self._accepted_s.items(), key=lambda item: (item[0] in self._requested, item[1]))
        if ranked:
            _end(ranked[0][0])


class BoundedHandler(BaseHTTPRequestHandler):
    """Reads at most the bytes of one request."""

    def setup(self) -> None:
        """Give the connection its time and size limits."""
        assert isinstance(self.server, BoundedServer)
        super().setup()
        self.connection.settimeout(self.server.bounds.seconds)
        self.rfile.close()
        raw = _Head(self.connection, self.server.bounds.request_bytes)
        self.rfile = io.BufferedReader(raw, buffer_size=4096)

    def parse_request(self) -> bool:
        """Read the request's headers."""
        parsed = super().parse_request()
        assert isinstance(self.server, BoundedServer)
        self.server.requested(self.connection)
        return parsed


class _Head(io.RawIOBase):
    """The first bytes of a connection; it looks closed after them."""

    def __init__(self, connection: socket.socket, size: int) -> None:
        self._connection = connection
        self._bytes_left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = self._connection.recv_into(buffer, min(len(buffer), self._bytes_left)) if self._bytes_left else 0
        self._bytes_left -= count
        return count


def _end(connection: socket.socket) -> None:
    """Wake the thread that serves a connection with an end of file; that thread then closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
