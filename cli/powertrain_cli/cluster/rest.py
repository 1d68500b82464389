"""A thin JSON client of the API server: objects are plain dictionaries, as kubectl prints them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from powertrain_cli.cluster import probe

Object = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"
_TIMEOUT_S = 10.0
# How long a quiet watch blocks before its reader may look at something else.
_QUIET_S = 2.0


class NotFoundError(Exception):
    """The object is not there (any more)."""


class ConflictError(Exception):
    """The object is there already, or is another one than was meant."""


class GoneError(Exception):
    """The server no longer remembers the version that a watch wanted to start from."""


class Rest:
    """Safe to share between threads."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = probe.client(kubeconfig)
        self._client.configuration.retries = False
        address = urlsplit(str(self._client.configuration.host))
        self.host, self.port = address.hostname or "127.0.0.1", address.port or 443
        self.server = str(self._client.configuration.host)
        self.ca_file = Path(self._client.configuration.ssl_ca_cert)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, **query: str) -> Object:
        return self._json("GET", path, query=query)

    def create(self, path: str, body: Object) -> Object:
        return self._json("POST", path, body)

    def patch(self, path: str, body: Object, kind: str = STRATEGIC) -> Object:
        return self._json("PATCH", path, body, content=kind)

    def replace(self, path: str, body: Object) -> Object:
        return self._json("PUT", path, body)

    def delete(self, path: str, body: Object | None = None) -> Object:
        return self._json("DELETE", path, body)

    def watch(self, path: str, version: str) -> Iterator[Object]:
        """Events after `version` until it has been quiet for a moment; the caller goes on from the last one."""
        from urllib3.exceptions import HTTPError

        query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        response = self._call("GET", path, query=query, timeout=(_TIMEOUT_S, _QUIET_S))
        try:
            for event in _lines(response):
                if event["type"] == "ERROR":
                    raise GoneError(event["object"].get("message", ""))
                yield event
        except HTTPError:
            return
        finally:
            response.close()

    def _json(
        self, method: str, path: str, body: Object | None = None, query: dict[str, str] | None = None, content: str = ""
    ) -> Object:
        response = self._call(method, path, body, query, content)
        try:
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
        timeout: Any = _TIMEOUT_S,
    ) -> Any:
        from kubernetes.client.exceptions import ApiException

        headers = {"Accept": "application/json", "Content-Type": content or "application/json"}
        try:
            return self._client.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=timeout,
            )
        except ApiException as error:
            kinds: dict[int, type[Exception]] = {404: NotFoundError, 409: ConflictError, 410: GoneError}
            raise kinds.get(error.status, ApiException)(f"{method} {path}: {error.status} {error.body}") from error


def _lines(response: Any) -> Iterator[Object]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield json.loads(line)
