"""The API server as this agent uses it: list, watch and apply, as plain dictionaries, with errors one can act on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

Object = dict[str, Any]
# One name for all that the agent writes, so that every release of it owns the same fields.
FIELD_MANAGER = "powertrain-agent"
APPLY = "application/apply-patch+yaml"
CONNECT_S = 5.0
ANSWER_S = 10.0
# The server sends a bookmark about every minute; a watch that is silent for longer is taken to be cut.
SILENCE_S = 90.0


class ApiError(Exception):
    """The API server refused; the message holds its words."""


class AwayError(ApiError):
    """Nobody answered, or the server said that it can't right now."""


class NotFoundError(ApiError):
    """The object, or its kind, is not there."""


class GoneError(ApiError):
    """The server no longer remembers the version that a watch wanted to start from: list again."""


class Api(Protocol):
    """What the link needs of an API server."""

    def list(self, path: str, query: Mapping[str, str]) -> Object:
        """Return a list of objects, with the version it was taken at."""
        ...

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Return events as they come, until the server or silence ends it."""
        ...

    def apply(self, path: str, body: Object) -> Object:
        """Make these fields the agent's and give them these values (server-side apply)."""
        ...


def credentials(kubeconfig: Path | None) -> Any:
    """Return the settings of a kubeconfig, or those that a pod finds in its own file system."""
    from kubernetes import client, config  # slow to import, and a standalone agent does without

    settings = client.Configuration()
    if kubeconfig is None:
        config.load_incluster_config(client_configuration=settings)
    else:
        config.load_kube_config(config_file=str(kubeconfig), client_configuration=settings)
    return settings


class KubeApi:
    """Safe to share between threads. Tokens are read again when they change; a refused one is read at once."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._open()

    def list(self, path: str, query: Mapping[str, str]) -> Object:
        """Return a list of objects, with the version it was taken at."""
        return self._document(self._call("GET", path, query))

    def apply(self, path: str, body: Object) -> Object:
        """Make these fields the agent's and give them these values (server-side apply)."""
        # The agent is the only writer of these fields: a conflict can only be with its own past or a hand at work.
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return self._document(self._call("PATCH", path, query, body))

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Return events as they come, until the server or silence ends it."""
        from urllib3.exceptions import HTTPError

        response = self._call("GET", path, {**query, "watch": "true"}, silence_s=SILENCE_S)
        try:
            for event in _lines(response):
                if event["type"] == "ERROR":
                    raise _error(event["object"].get("code", 500), "watch", path, event["object"].get("message", ""))
                yield event
        except (HTTPError, OSError):
            return  # cut or silent: the next list tells whether the server is there
        finally:
            response.close()

    def _open(self) -> None:
        import urllib3

        self._settings = self._load()
        self._pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=4,
            retries=False,
            ca_certs=self._settings.ssl_ca_cert,
            cert_file=self._settings.cert_file,
            key_file=self._settings.key_file,
        )

    def _reopen(self) -> None:
        """Read the credentials anew; while they are being replaced they may not be readable."""
        try:
            self._open()
        except Exception as error:  # the library raises many kinds, also for missing files and bad base64
            raise AwayError(f"the credentials can't be read: {error}") from error

    def _authorization(self) -> dict[str, str]:
        """Return the header with the token, read again by the library where it is time; empty with certificates."""
        try:
            parts = self._settings.auth_settings().values()
        except Exception as error:
            raise AwayError(f"the token can't be read: {error}") from error
        token = next((str(part["value"]) for part in parts if part["in"] == "header" and part["value"]), "")
        return {"Authorization": token} if token else {}

    def _document(self, response: Any) -> Object:
        try:
            document: Object = json.loads(response.data)
        except ValueError as error:
            raise AwayError(f"the API server's answer is not JSON: {error}") from error
        finally:
            response.release_conn()
        return document

    def _call(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None = None, silence_s: float = ANSWER_S
    ) -> Any:
        response = self._request(method, path, query, body, silence_s)
        if response.status == 401:
            response.drain_conn()
            self._reopen()
            response = self._request(method, path, query, body, silence_s)
        if response.status >= 300:
            raise _error(response.status, method, path, _words(response.data))
        return response

    def _request(self, method: str, path: str, query: Mapping[str, str], body: Object | None, silence_s: float) -> Any:
        import urllib3

        headers = {"Accept": "application/json", "User-Agent": FIELD_MANAGER}
        headers |= self._authorization()
        headers |= {"Content-Type": APPLY} if body is not None else {}
        try:
            return self._pool.request(
                method,
                f"{self._settings.host}{path}?{urlencode(query)}",
                body=None if body is None else json.dumps(body, separators=(",", ":")).encode(),
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT_S, read=silence_s),
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise AwayError(f"{method} {path}: {error}") from error


def _error(status: int, method: str, path: str, words: str) -> ApiError:
    text = f"{method} {path}: {status} {words}"
    if status == 404:
        return NotFoundError(text)
    if status == 410:
        return GoneError(text)
    return AwayError(text) if status >= 500 or status == 429 else ApiError(text)


def _words(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace")[:500]


def _lines(response: Any) -> Iterator[Object]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield json.loads(line)
