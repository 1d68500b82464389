"""Health: whether every part still beats, and the small HTTP server that says so beside the metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from powertrain_kube.bounded_http import BoundedHandler, BoundedServer


class Pulse:
    """Each part that must stay alive beats; one that was silent for too long makes the process unwell."""

    def __init__(self, clock: Callable[[], float], stale_after_s: Mapping[str, float]) -> None:
        self._clock = clock
        self._stale_after_s = stale_after_s
        self._last_s: dict[str, float] = {}

    def beat(self, part: str) -> None:
        """Take a beat; a part counts from its first one."""
        if part not in self._stale_after_s:
            raise ValueError(f"no part {part!r} is watched; watched are {', '.join(self._stale_after_s)}")
        self._last_s[part] = self._clock()

    def problem(self) -> str:
        """Return what is wrong, empty if nothing is."""
        now_s = self._clock()
        silent = {part: now_s - last_s for part, last_s in list(self._last_s.items())}
        stale = [f"{part} silent for {s:.0f} s" for part, s in silent.items() if s > self._stale_after_s[part]]
        return "; ".join(stale)


class HealthServer:
    """Serves /metrics and /healthz until stopped, within bounds whoever connects; port 0 takes a free one."""

    def __init__(self, registry: CollectorRegistry, problem: Callable[[], str], port: int, address: str = "") -> None:
        self._server = BoundedServer((address, port), _handler(registry, problem))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="http", daemon=True)

    @property
    def port(self) -> int:
        """Return the port that is served."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.end_all()
        self._server.server_close()
        self._thread.join(timeout=5.0)


def _handler(registry: CollectorRegistry, problem: Callable[[], str]) -> type[BoundedHandler]:
    class Handler(BoundedHandler):
        def do_GET(self) -> None:  # noqa: N802  (the name that http.server looks for)
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                self._answer(200, kind, encode(registry))
            elif path == "/healthz":
                wrong = problem()
                self._answer(503 if wrong else 200, "text/plain; charset=utf-8", f"{wrong or 'ok'}\n".encode())
            else:
                self._answer(404, "text/plain; charset=utf-8", b"here are /metrics and /healthz\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """A line per scrape would hide the decisions."""

    return Handler
