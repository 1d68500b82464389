"""A thin JSON client of the API server: objects are plain dictionaries, as kubectl prints them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3

from powertrain_cli.cluster import probe

Object = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"
_TIMEOUT_S = 10.0
# How long a quiet watch blocks before its reader may look at something else.
_QUIET_S = 20.0


class ApiError(Exception):
    """The server refused; the message holds its words."""


class NotFoundError(ApiError):
    """The object is not there (any more)."""


class ConflictError(ApiError):
    """The object is there already, or is another one than was meant."""


class BusyError(ApiError):
    """The server can't answer now (no connection, too many requests, an error of its own); try again in a moment."""


class GoneError(ApiError):
    """The server no longer remembers the version that a watch wanted to start from."""


class Rest:
    """Safe to share between threads."""

    def __init__(self, kubeconfig: Path) -> None:
        client = probe.client(kubeconfig)
        configuration = client.configuration
        address = urlsplit(str(configuration.host))
        self.host, self.port = address.hostname or "127.0.0.1", address.port or 443
        self.server = str(configuration.host)
        self._authority = configuration.ssl_ca_cert
        self._headers = _authorization(configuration)
        # The generated client's own request method changes between its releases; its pool of connections does not.
        self._pool = urllib3.PoolManager(
            num_pools=2,
            maxsize=16,
            retries=False,
            ca_certs=configuration.ssl_ca_cert,
            cert_file=configuration.cert_file,
            key_file=configuration.key_file,
        )
        client.close()
        self._watches: set[urllib3.BaseHTTPResponse] = set()

    @property
    def ca_file(self) -> Path:
        """The certificate of the server's authority."""
        return Path(self._authority)

    def close(self) -> None:
        self.interrupt()
        self._pool.clear()

    def interrupt(self) -> None:
        """End the watches that other threads are blocked in."""
        for response in list(self._watches):
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                response.shutdown()

    def get(self, path: str, **query: str) -> Object:
        return self._json("GET", path, query=query)

    def status(self, path: str) -> int:
        """The HTTP status of a GET whose answer need not be JSON."""
        response = self._call("GET", path)
        response.drain_conn()
        return response.status

    def create(self, path: str, body: Object) -> Object:
        return self._json("POST", path, body)

    def patch(self, path: str, body: Object, kind: str = STRATEGIC) -> Object:
        return self._json("PATCH", path, body, content=kind)

    def apply(self, path: str, body: Object, manager: str) -> Object:
        """Server-side apply: these fields are the manager's from now on."""
        query = {"fieldManager": manager, "force": "true"}
        return self._json("PATCH", path, body, query, "application/apply-patch+yaml")

    def replace(self, path: str, body: Object) -> Object:
        return self._json("PUT", path, body)

    def delete(self, path: str, body: Object | None = None) -> Object:
        return self._json("DELETE", path, body)

    def watch(self, path: str, version: str) -> Iterator[Object]:
        """Events after `version` until it has been quiet for a moment; the caller goes on from the last one."""
        query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        response = self._call("GET", path, query=query, timeout=urllib3.Timeout(connect=_TIMEOUT_S, read=_QUIET_S))
        self._watches.add(response)
        try:
            for event in _lines(response):
                if event["type"] == "ERROR":
                    raise GoneError(event["object"].get("message", ""))
                yield event
        except urllib3.exceptions.HTTPError:
            return
        finally:
            self._watches.discard(response)
            response.close()

    def _json(
        self, method: str, path: str, body: Object | None = None, query: dict[str, str] | None = None, content: str = ""
    ) -> Object:
        response = self._call(method, path, body, query, content)
        try:
            with _answers(method, path):
                document: Object = json.loads(response.data)
        finally:
            response.release_conn()
        return document

    def _call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        query: dict[str, str] | None = None,
        content: str = "",
        timeout: urllib3.Timeout | float = _TIMEOUT_S,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json", "Content-Type": content or "application/json", **self._headers}
        with _answers(method, path):
            response = self._pool.request(
                method,
                self.server + path + (f"?{urlencode(query)}" if query else ""),
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=timeout,
                preload_content=False,
            )
            if response.status >= 300:
                text = response.data.decode(errors="replace")
                raise _kind(response.status)(f"{method} {path}: {response.status} {text}")
        return response


@contextlib.contextmanager
def _answers(method: str, path: str) -> Iterator[None]:
    try:
        yield
    except urllib3.exceptions.HTTPError as error:
        raise BusyError(f"{method} {path}: no answer: {error}") from error


def _kind(status: int) -> type[ApiError]:
    kinds: dict[int, type[ApiError]] = {404: NotFoundError, 409: ConflictError, 410: GoneError, 429: BusyError}
    return BusyError if status >= 500 else kinds.get(status, ApiError)


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[Object]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield json.loads(line)


def _authorization(configuration: Any) -> dict[str, str]:
    """Return the header with the kubeconfig's token, empty with certificates; its key differs by release."""
    parts = configuration.auth_settings().values()
    token = next((str(part["value"]) for part in parts if part["in"] == "header" and part["value"]), "")
    return {"Authorization": token} if token else {}
