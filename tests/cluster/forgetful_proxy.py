"""A proxy on loopback before an API server: it cuts watches and then says that it forgot their version (410 Gone)."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from powertrain_kube import credentials

GONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410}
PASSED_ON = ("Content-Type", "Accept")


class ForgetfulProxy:
    """While it is `forgetting` nothing of any watch comes through; afterwards every one of them ends with 410."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._api = credentials(kubeconfig)
        self._lock = threading.Lock()
        self._watches: set[http.client.HTTPSConnection] = set()
        self._open = threading.Event()
        self._open.set()
        self.forgotten: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.kubeconfig = folder / "forgetful-kubeconfig"
        config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self._server.server_port}"}
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")

    def __enter__(self) -> ForgetfulProxy:
        self._thread = threading.Thread(target=self._server.serve_forever, name="forgetful-proxy", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.set()
        self._cut()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextlib.contextmanager
    def forgetting(self) -> Iterator[None]:
        """Cut every watch; what happens inside is never told by one of them."""
        self._open.clear()
        self._cut()
        try:
            yield
        finally:
            self._open.set()

    def _cut(self) -> None:
        with self._lock:
            cut, self._watches = self._watches, set()
        for connection in cut:
            with contextlib.suppress(OSError):
                if connection.sock is not None:
                    connection.sock.shutdown(2)

    def _connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=self._api.ssl_ca_cert)
        context.load_cert_chain(self._api.cert_file, self._api.key_file)
        where = urlsplit(self._api.host)
        return http.client.HTTPSConnection(where.hostname or "", where.port, context=context, timeout=600)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Pass a request on, and its answer back."""
        length = int(request.headers.get("Content-Length", 0))
        body = request.rfile.read(length) if length else None
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        with contextlib.closing(self._connect()) as connection:
            connection.request(request.command, request.path, body, headers)
            with contextlib.closing(connection.getresponse()) as answered:
                query = parse_qs(urlsplit(request.path).query)
                if query.get("watch") == ["true"] and answered.status == 200:
                    self._watch(request, connection, answered)
                else:
                    _hand_back(request, answered)

    def _watch(self, request: BaseHTTPRequestHandler, connection: http.client.HTTPSConnection, answered: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        with self._lock:
            self._watches.add(connection)
        while self._open.is_set():
            try:
                line = answered.readline()
            except (OSError, http.client.HTTPException, ValueError):
                line = b""
            if not line:
                break
            if self._open.is_set():
                _chunk(request, line)
        with self._lock:
            cut = connection not in self._watches
            self._watches.discard(connection)
        if cut:
            self._open.wait()
            self.forgotten.append(request.path)
            _chunk(request, json.dumps({"type": "ERROR", "object": GONE}).encode() + b"\n")
        request.wfile.write(b"0\r\n\r\n")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                with contextlib.suppress(OSError):
                    proxy.answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler


def _hand_back(request: BaseHTTPRequestHandler, answered: http.client.HTTPResponse) -> None:
    text = answered.read()
    request.send_response(answered.status)
    request.send_header("Content-Type", answered.getheader("Content-Type", "application/json"))
    request.send_header("Content-Length", str(len(text)))
    request.end_headers()
    request.wfile.write(text)


def _chunk(request: BaseHTTPRequestHandler, data: bytes) -> None:
    request.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
