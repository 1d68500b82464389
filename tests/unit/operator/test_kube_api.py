"""The client of the API server: where it asks, and with which token."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from powertrain_kube import ApiError, KubeApi, client


class Server(ThreadingHTTPServer):
    """Answers every request with what it was asked, as long as the token is the one that it takes."""

    takes = "Bearer one"
    date: str | None = "Mon, 01 Jun 2026 12:00:00 GMT"
    requests: list[str]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(f"{self.path} {self.headers['Authorization']}")
        welcome = self.headers["Authorization"] == self.server.takes
        body = json.dumps({"path": self.path} if welcome else {"message": "who are you?", "reason": "Unauthorized"})
        self.send_response_only(200 if welcome else 401)
        if self.server.date is not None:
            self.send_header("Date", self.server.date)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Credentials:
    """What the Kubernetes library would have loaded; counts how often its token is looked at."""

    ssl_ca_cert = cert_file = key_file = None

    def __init__(self, host: str) -> None:
        self.host, self.token, self.reads = host, "Bearer one", 0

    def auth_settings(self) -> dict[str, dict[str, str]]:
        self.reads += 1
        return {"BearerToken": {"in": "header", "value": self.token}}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as new_server:
        thread = threading.Thread(target=new_server.serve_forever, args=(0.01,))
        thread.start()
        yield new_server
        new_server.shutdown()
        thread.join()


def test_parameters_of_a_path_stay_beside_those_of_a_call(server: Server) -> None:
    api = KubeApi(lambda: Credentials(f"http://127.0.0.1:{server.server_port}"), "test")
    try:
        assert api.get("/x?dryRun=All", {"a": "b"})["path"] == "/x?dryRun=All&a=b"
        assert api.get("/x", {"a": "b"})["path"] == "/x?a=b"
    finally:
        api.close()


def test_a_server_behind_a_path_is_asked_there(server: Server) -> None:
    credentials = Credentials(f"http://127.0.0.1:{server.server_address[1]}/clusters/one")
    assert KubeApi(lambda: credentials, "test").get("/api/v1/nodes", {"limit": "1"}) == {
        "path": "/clusters/one/api/v1/nodes?limit=1"
    }


def test_a_token_is_looked_at_now_and_then_and_at_once_when_it_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials, now_s = Credentials(f"http://127.0.0.1:{server.server_address[1]}"), 100.0
    monkeypatch.setattr(client.time, "monotonic", lambda: now_s)
    api = KubeApi(lambda: credentials, "test")
    for _ in range(3):
        api.get("/version")
    assert credentials.reads == 1
    now_s += client.TOKEN_S
    api.get("/version")
    assert credentials.reads == 2
    credentials.token = server.takes = "Bearer two"
    assert api.get("/version") == {"path": "/version"}
    assert server.requests[-2:] == ["/version Bearer one", "/version Bearer two"]
    server.takes = "Bearer three"
    with pytest.raises(ApiError):
        api.get("/version")


@pytest.mark.parametrize("date", [None, "", "noon", "Mon, 01 Jun 2026 12:00:00 -0000", "Mon, 99 Jun 2026 12:00:00 GMT"])
def test_the_date_of_every_answer_is_told_and_one_that_can_not_be_read_is_not(server: Server, date: str | None) -> None:
    api, dates = KubeApi(lambda: Credentials(f"http://127.0.0.1:{server.server_address[1]}"), "test"), list[datetime]()
    api.on_server_date = dates.append
    api.get("/version")
    assert dates == [datetime(2026, 6, 1, 12, 0, tzinfo=UTC)]
    server.date = date
    api.get("/version")
    assert len(dates) == 1, "an unreadable date must not pass for a comparison"
