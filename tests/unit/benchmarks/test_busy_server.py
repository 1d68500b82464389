"""A server that is busy or cuts a watch ends neither the replayed agents nor the measurement."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from benchmarks.many_nodes.load import Load
from benchmarks.many_nodes.replay import FAILED, Api, Replay

from powertrain_devcluster.connection import connect

Object = dict[str, Any]
NODE = "orin-agx-0000"
ENVELOPED = {
    "metadata": {"name": NODE, "resourceVersion": "7"},
    "spec": {"session": {"uid": "u", "job": {"namespace": "bench", "name": "job-0000"}}},
}


class Server:
    """Fails a few times for each thing that is asked, then serves; a watch brings one event and is cut."""

    def __init__(self, failures: int) -> None:
        self.asked: dict[str, int] = {}
        self.first_s: dict[str, float] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                watches = "watch=true" in self.path
                self._answer("watch" if watches else "list", server.event() if watches else server.listed())

            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(self.path.partition("?")[0], body)

            def do_POST(self) -> None:
                self.do_PATCH()

            def _answer(self, what: str, body: Object) -> None:
                server.asked[what] = server.asked.get(what, 0) + 1
                server.first_s.setdefault(what, time.monotonic())
                data = json.dumps(body).encode() + b"\n"
                self.send_response(503 if server.asked[what] <= failures else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self.thread.start()

    def listed(self) -> Object:
        return {"metadata": {"resourceVersion": "5"}, "items": []}

    def event(self) -> Object:
        return {"type": "MODIFIED", "object": ENVELOPED}

    def kubeconfig(self, folder: Path) -> Path:
        address = f"http://127.0.0.1:{self._http.server_port}"
        found = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": address}}],
            "users": [{"name": "it", "user": {"token": "t"}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(found), encoding="utf-8")
        return path

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(failures=2)
    yield server
    server.close()


def wait(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 10.0
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_list_that_fails_and_a_watch_that_is_cut_hide_no_decision(server: Server, tmp_path: Path) -> None:
    rest = connect(server.kubeconfig(tmp_path))
    load = Load(rest, "bench", nodes=1)
    with load.watching():
        wait(lambda: "job-0000" in load.decisions.seen_s and server.asked["watch"] > 3)
    rest.close()
    assert load.decisions.busy == {NODE}


def test_a_job_whose_creation_was_not_answered_counts_from_the_first_try(server: Server, tmp_path: Path) -> None:
    rest = connect(server.kubeconfig(tmp_path))
    load = Load(rest, "bench", nodes=1)
    load.make(1, 5.0)
    rest.close()
    (creation,) = server.asked
    assert server.asked[creation] == 3, "it was refused twice"
    assert load.decisions.created_s["job-0000"] <= server.first_s[creation]


def test_a_status_and_a_lease_that_were_not_taken_are_written_again(server: Server, tmp_path: Path) -> None:
    api = Api(server.kubeconfig(tmp_path))
    replay = Replay(api, 1, "powertrain-system", 4.0, 30.0)
    worker = threading.Thread(target=replay.timeline.run, daemon=True)
    worker.start()
    replay.power_node({"metadata": {"name": NODE}, "spec": {}})
    replay.beat(0.0)
    status = f"/apis/powertrain.io/v1alpha1/powernodes/{NODE}/status"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/powertrain-system/leases/{NODE}"
    wait(lambda: server.asked.get(status, 0) > 2 and server.asked.get(lease, 0) > 2)
    assert not replay.timeline.stopped.is_set()
    replay.timeline.stopped.set()
    worker.join(5.0)
    assert api.writes[FAILED] >= 4
