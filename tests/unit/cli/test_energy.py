"""Watt-hours by job, node and namespace, from job records and from a Prometheus server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from powertrain_cli.errors import CliError
from powertrain_cli.jobs.energy import EARLIER, duration_s, from_records

Command = Callable[..., Any]
BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def job(
    name: str, joules: float, nodes: dict[str, float], ended: str | None, namespace: str = "team"
) -> dict[str, Any]:
    node_energies = [{"name": node, "energyJoules": share} for node, share in nodes.items()]
    status = {"energyJoules": joules, "nodes": node_energies, "startedAt": "2026-02-01T00:00:00Z", "completedAt": ended}
    return {"metadata": {"namespace": namespace, "name": name}, "status": status}


def test_records_are_added_up_and_what_earlier_attempts_took_is_not_lost() -> None:
    jobs = [
        job("a", 7200.0, {"orin-1": 3600.0}, None),
        job("b", 3600.0, {"orin-1": 1800.0, "orin-2": 1800.0}, "2026-03-02T00:00:00Z"),
        job("c", 3600.0, {"orin-2": 3600.0}, "2026-03-02T00:00:00Z", "lab"),
        job("old", 36000.0, {"orin-2": 36000.0}, "2026-02-20T00:00:00Z"),
        {"metadata": {"namespace": "team", "name": "waits"}, "status": {}},
    ]
    rows = from_records(jobs, BEGAN)
    assert rows["jobs"] == [{"name": "team/a", "wh": 2.0}, {"name": "lab/c", "wh": 1.0}, {"name": "team/b", "wh": 1.0}]
    assert {each["name"]: each["wh"] for each in rows["nodes"]} == {"orin-1": 1.5, "orin-2": 1.5, EARLIER: 1.0}
    assert {each["name"]: each["wh"] for each in rows["namespaces"]} == {"team": 3.0, "lab": 1.0}
    assert rows["jobs_wh"] == sum(each["wh"] for each in rows["nodes"])


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("12h", 43200), ("7d", 604800), ("2w", 1209600)])
def test_a_duration_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "0d", "-1d", "7 d", "1.5h", "7y"])
def test_another_duration_is_refused_with_one_that_is_right(text: str) -> None:
    with pytest.raises(CliError, match="such as 30m"):
        duration_s(text)


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    asked_modes: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that the base class looks for
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            asked_modes.append(query)
            label = "job" if "powertrain_session_info" in query else "node"
            names = {"job": ("team/a", "lab/b"), "node": ("orin-1", "orin-2")}[label]
            result = [{"metric": {label: name}, "value": [0, str(2.5 + place)]} for place, name in enumerate(names)]
            data = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{serving.server_address[1]}", asked_modes
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_prometheus_is_asked_for_the_whole_time(powertrain: Command, server: tuple[str, list[str]]) -> None:
    url, queries = server
    result = powertrain("energy", "--since", "30d", "--prometheus", url, "--json")
    assert result.code == 0
    document = json.loads(result.out)
    assert document["namespaces"] == [{"name": "lab", "wh": 3.5}, {"name": "team", "wh": 2.5}]
    assert all("[30d" in query for query in queries)
    text = powertrain("energy", "--prometheus", url).out
    assert "orin-2" in text
    assert "also without a job" in " ".join(text.split())


def test_a_prometheus_that_is_away_is_one_line(powertrain: Command) -> None:
    result = powertrain("energy", "--prometheus", "http://127.0.0.1:9")
    assert result.code == 3
    assert result.err == "error: no answer from Prometheus at http://127.0.0.1:9: Connection refused\n"
    wrong = powertrain("energy", "--prometheus", "prometheus:9090")
    assert (wrong.code, "such as http://prometheus:9090" in wrong.err) == (2, True)
