"""KubeApi: the API server's verbs on plain dictionaries, with errors one can act on."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from powertrain_kube.credentials import authorization
from powertrain_kube.documents import parse
from powertrain_kube.errors import AwayError, TooLargeError, error_of

Object = dict[str, Any]
Propagation = Literal["Background", "Foreground", "Orphan"]
JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
CONNECT_S = 5.0
ANSWER_S = 10.0
# The server sends a bookmark about every minute; a watch that is silent for longer is taken to be cut.
SILENCE_S = 90.0
# More than the threads of one process that ask at a time; a connection beyond that is opened and closed for each call.
POOL = 8
# A token is replaced long before it ends, and a refused one is read at once.
TOKEN_S = 5.0
CHUNK_BYTES = 64 * 1024


class KubeApi:
    """Safe to share between threads. Tokens are read again when they change; a refused one is read at once.

    `manager` is the name under which the fields that are written are owned, and the name we give to the server.
    """

    def __init__(self, load: Callable[[], Any], manager: str, answer_s: float = ANSWER_S) -> None:
        self._load = load
        self._manager = manager
        self._answer_s = answer_s
        self._date = ""
        self._watches: set[Any] = set()
        # Gets the date of each answer, by the server's clock.
        self.on_server_date: Callable[[datetime], None] | None = None
        self._open()

    @property
    def server(self) -> str:
        """Return the address of the API server."""
        return str(self._settings.host)

    @property
    def ca_file(self) -> Path:
        """Return the certificate of the server's authority."""
        return Path(self._settings.ssl_ca_cert)

    def close(self) -> None:
        """End the watches and close the connections."""
        self.interrupt()
        self._pool.close()

    def interrupt(self) -> None:
        """End the watches that other threads are blocked in; a watch may be opened right after."""
        for response in list(self._watches):
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                response.shutdown()

    def now(self) -> datetime:
        """Return the time of the server's last answer by its own clock, which ages of objects are counted with."""
        return _moment(self._date) or datetime.now(UTC)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Object:
        """Return an object."""
        return self._document("GET", path, query or {})

    def list(self, path: str, query: Mapping[str, str], most_bytes: int | None = None) -> Object:
        """Return a list of objects, with the version it was taken at.

        A longer answer than `most_bytes` is not read to its end: TooLargeError.
        """
        return self._document("GET", path, query, most_bytes=most_bytes)

    def text(self, path: str) -> str:
        """Return an answer that is not JSON."""
        response = self._call("GET", path, {})
        try:
            return str(response.data.decode(errors="replace"))
        finally:
            response.release_conn()

    def watch(self, path: str, query: Mapping[str, str], silence_s: float = SILENCE_S) -> Iterator[Object]:
        """Return events as they come, until the server, `interrupt` or silence ends it."""
        from urllib3.exceptions import HTTPError

        response = self._call("GET", path, {**query, "watch": "true"}, silence_s=silence_s)
        self._watches.add(response)
        try:
            for event in _lines(response):
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise error_of(status.get("code", 500), "watch", path, status.get("message", ""))
                yield event
        except ValueError as error:
            raise AwayError(f"watch {path}: an event can't be read: {error}") from error
        except (HTTPError, OSError):
            return  # cut or silent: the next list tells whether the server is there
        finally:
            self._watches.discard(response)
            response.close()

    def apply(self, path: str, body: Object, *, manager: str = "", force: bool = True, dry_run: bool = False) -> Object:
        """Make these fields ours and give them these values (server-side apply).

        Force is safe for fields that have one writer: a conflict can only be with its own past or a hand at work.
        """
        query = self._writes(manager) | {"force": "true" if force else "false"} | _dry(dry_run)
        return self._document("PATCH", path, query, body, APPLY)

    def create(
        self, path: str, body: Object, *, manager: str = "", dry_run: bool = False, strict: bool = False
    ) -> Object:
        """Create an object; `strict` refuses fields that the server does not know instead of dropping them."""
        query = self._writes(manager) | _dry(dry_run) | ({"fieldValidation": "Strict"} if strict else {})
        return self._document("POST", path, query, body)

    def replace(self, path: str, body: Object) -> Object:
        """Replace an object; with a resourceVersion in it only that version."""
        return self._document("PUT", path, self._writes(), body)

    def merge_patch(self, path: str, body: Object, *, manager: str = "") -> Object:
        """Change these fields, remove those that are null."""
        return self._document("PATCH", path, self._writes(manager), body, MERGE)

    def strategic_patch(self, path: str, body: Object, *, manager: str = "") -> Object:
        """Change these fields of a built-in resource; lists of named items are merged by their keys."""
        return self._document("PATCH", path, self._writes(manager), body, STRATEGIC)

    def delete(
        self, path: str, *, uid: str = "", propagation: Propagation = "Background", grace_period_s: int | None = None
    ) -> Object:
        """Delete an object, with a uid only that one; returns it while it still exists, else a Status."""
        body: Object = {"propagationPolicy": propagation} | ({"preconditions": {"uid": uid}} if uid else {})
        body |= {} if grace_period_s is None else {"gracePeriodSeconds": grace_period_s}
        return self._document("DELETE", path, {}, body)

    def _writes(self, manager: str = "") -> dict[str, str]:
        """Return what every write says: whose it is, and not to parse it twice to warn of unknown fields, unread."""
        return {"fieldManager": manager or self._manager, "fieldValidation": "Ignore"}

    def _open(self) -> None:
        import urllib3

        self._settings = self._load()
        self._token: tuple[str, float] | None = None
        url = urllib3.util.parse_url(self._settings.host)
        # One server, so one pool of connections; a manager of many would look for it at each call.
        self._root = (url.path or "").rstrip("/")
        secure = {"ca_certs": self._settings.ssl_ca_cert} if url.scheme == "https" else {}
        if url.scheme == "https":
            secure |= {"cert_file": self._settings.cert_file, "key_file": self._settings.key_file}
        self._pool = urllib3.connection_from_url(self._settings.host, maxsize=POOL, **secure)
        # Made once: a call takes a quarter of a millisecond, and these were a seventh of it.
        self._no_retries = urllib3.Retry(total=False, redirect=False)
        self._timeout = urllib3.Timeout(connect=min(CONNECT_S, self._answer_s), read=self._answer_s)

    def _reopen(self) -> None:
        """Read the credentials anew; while they are being replaced they may not be readable."""
        try:
            self._open()
        except Exception as error:  # the library raises many kinds, also for missing files and bad base64
            raise AwayError(f"the credentials can't be read: {error}") from error

    def _authorization(self) -> dict[str, str]:
        """Return the header; the library looks at files each time that it is asked."""
        now_s = time.monotonic()
        if self._token is None or now_s - self._token[1] >= TOKEN_S:
            try:
                self._token = (authorization(self._settings), now_s)
            except Exception as error:
                raise AwayError(f"the token can't be read: {error}") from error
        return {"Authorization": self._token[0]} if self._token[0] else {}

    def _document(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        kind: str = JSON,
        most_bytes: int | None = None,
    ) -> Object:
        import urllib3

        response = self._call(method, path, query, body, kind)
        try:
            document: Object = parse(response.data if most_bytes is None else _at_most(response, most_bytes))
        except TooLargeError:
            response.close()  # the rest would have to be read before the connection can be used again
            raise
        except (ValueError, urllib3.exceptions.HTTPError, OSError) as error:
            raise AwayError(f"{method} {path}: the API server's answer can't be read: {error}") from error
        finally:
            response.release_conn()
        return document

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        kind: str = JSON,
        silence_s: float | None = None,
    ) -> Any:
        response = self._request(method, path, query, body, kind, silence_s)
        if response.status == 401:
            response.drain_conn()
            self._reopen()
            response = self._request(method, path, query, body, kind, silence_s)
        self._date = response.headers.get("Date", "")
        if self.on_server_date is not None and (server_time := _moment(self._date)) is not None:
            self.on_server_date(server_time)
        if response.status >= 300:
            words, reason = _words(response.data)
            raise error_of(response.status, method, path, words, reason)
        return response

    def _request(
        self, method: str, path: str, query: Mapping[str, str], body: Any, kind: str, silence_s: float | None
    ) -> Any:
        import urllib3

        timeout = self._timeout if silence_s is None else urllib3.Timeout(connect=CONNECT_S, read=silence_s)
        headers = {"Accept": JSON, "User-Agent": self._manager} | self._authorization()
        headers |= {"Content-Type": kind} if body is not None else {}
        try:
            return self._pool.urlopen(
                method,
                f"{self._root}{_with_query(path, query)}",
                redirect=False,
                retries=self._no_retries,
                body=None if body is None else json.dumps(body, separators=(",", ":")).encode(),
                headers=headers,
                timeout=timeout,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise AwayError(f"{method} {path}: {error}") from error


def _moment(date: str) -> datetime | None:
    """Return the moment of a Date header; None where there is none, or one that can't be compared."""
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _words(data: bytes) -> tuple[str, str]:
    """Return the message of a Status and its reason."""
    try:
        status = json.loads(data)
        return str(status["message"]), str(status.get("reason", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return data.decode(errors="replace")[:500], ""


def _lines(response: Any) -> Iterator[Object]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield parse(line)


def _at_most(response: Any, most_bytes: int) -> bytes:
    """Return the body of an answer, if it has no more than so many bytes."""
    chunks, size = [], 0
    for chunk in response.stream(CHUNK_BYTES):
        size += len(chunk)
        if size > most_bytes:
            raise TooLargeError(f"the answer has more than {most_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _with_query(path: str, query: Mapping[str, str]) -> str:
    """Return the path with these parameters, beside those that the caller put into it."""
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}" if query else path
