"""Five hundred jobs of 1.4 MB in one list: the operator reads them within half of the memory that the chart gives."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

JOBS = 500
# Half of the chart's 512 MiB: lists come again while jobs are served.
MOST_MB = 256
# What costs most memory for its length: 25 bytes for each.
EMPTY_LISTS = b"[" + b"[]," * 466_000 + b"[]]"
ONE_TEXT = b'"' + b"x" * 1_400_000 + b'"'
READER = """
import io, json, sys
from pathlib import Path
from types import SimpleNamespace
from powertrain_kube import KubeApi, Log
from powertrain_operator.resources import RESOURCE_BY_KIND
from powertrain_operator.runtime.resync import Resync
from powertrain_operator.settings import Settings
from powertrain_operator.cache import Cache

found = SimpleNamespace(host=sys.argv[1], ssl_ca_cert=None, cert_file=None, key_file=None, auth_settings=dict)
cache = Cache()

def tell(news):
    if hasattr(news, "observation"):
        cache.put(news.observation)

Resync(KubeApi(lambda: found, "test"), Settings(), tell, Log(io.StringIO())).list_all(RESOURCE_BY_KIND["TrainingJob"])
reasons = [cache.observation(key).excess.reason for key in cache.keys("TrainingJob")]
# Not ru_maxrss: that begins with what the process that started this one has.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
peak_mb = int(status["VmHWM"].split()[0]) / 1024
print(json.dumps({"jobs": len(reasons), "reasons": sorted(set(reasons)), "peakMb": peak_mb}))
"""


class Handler(BaseHTTPRequestHandler):
    """Serves pages of a list as an API server does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        query = parse_qs(urlparse(self.path).query)
        first, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        last = min(JOBS, first + limit)
        items = b",".join(self._job(number) for number in range(first, last))
        metadata: dict[str, Any] = {"resourceVersion": "1000"} | ({"continue": str(last)} if last < JOBS else {})
        body = b'{"kind":"List","metadata":' + json.dumps(metadata).encode() + b',"items":[' + items + b"]}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the reader wants smaller pages

    def _job(self, number: int) -> bytes:
        metadata = json.dumps(
            {"name": f"job-{number}", "namespace": "team", "resourceVersion": str(number + 1)}
        ).encode()
        # Most are quick to read, so that the test is.
        data = EMPTY_LISTS if number % 25 == 0 else ONE_TEXT
        return b'{"metadata":' + metadata + b',"spec":{"workload":{"template":{"data":' + data + b"}}}}"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as new_server:
        thread = threading.Thread(target=new_server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{new_server.server_address[1]}"
        new_server.shutdown()
        thread.join()


def test_five_hundred_jobs_of_1_4_mb_are_listed_within_half_of_the_chart_s_memory(server: str) -> None:
    result = subprocess.run([sys.executable, "-c", READER, server], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    content = json.loads(result.stdout)
    assert (content["jobs"], content["reasons"]) == (JOBS, ["TemplateTooLarge"])
    assert content["peakMb"] < MOST_MB
