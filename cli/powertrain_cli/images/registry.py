"""Pushes images to a registry by the OCI distribution protocol."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import urlencode, urljoin

import urllib3

from powertrain_cli.errors import CliError, Exit
from powertrain_cli.images.archive import Archive

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CHUNK = 1 << 20
_TIMEOUT = urllib3.Timeout(connect=10, read=300)

Descriptor = dict[str, Any]


class RegistryError(CliError):
    """The registry refused something, or could not be reached."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.ENVIRONMENT)


def digest_of(data: bytes) -> str:
    """Return the name of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Registry:
    """A registry at `host[:port]`, and a login if it wants one."""

    host: str
    user: str = ""
    password: str = ""
    insecure: bool = False
    _pool: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(timeout=_TIMEOUT, retries=False))
    _authorization: dict[str, str] = field(default_factory=dict)

    def push(self, repository: str, tag: str, archives: Sequence[Archive]) -> str:
        """Push an image for all of its architectures under one tag; return the tag's digest.

        Architectures that the tag has in the registry already, and that are not pushed now, stay.
        """
        manifests = [self._push_image(repository, archive) for archive in archives]
        pushed = {each["platform"]["architecture"] for each in manifests}
        other_manifests = [
            each for each in self._index(repository, tag) if each["platform"]["architecture"] not in pushed
        ]
        both = sorted(manifests + other_manifests, key=lambda each: str(each["platform"]["architecture"]))
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": both}
        return self._put_manifest(repository, tag, INDEX, json.dumps(index).encode())

    def _index(self, repository: str, tag: str) -> list[Descriptor]:
        answer = self._request("GET", f"/v2/{repository}/manifests/{tag}", repository, headers={"Accept": INDEX})
        if answer.status != 200 or answer.headers.get("Content-Type") != INDEX:
            return []
        listed: list[Descriptor] = json.loads(answer.data)["manifests"]
        return [each for each in listed if each.get("platform", {}).get("architecture")]

    def _push_image(self, repository: str, archive: Archive) -> Descriptor:
        layers = {}
        with archive.open_layers() as streams:
            for name, stream in streams:
                layers[name] = self._push_layer(repository, stream)
        config = self._push_bytes(repository, CONFIG, archive.config)
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config}
        body = json.dumps(manifest | {"layers": [layers[name] for name in archive.layers]}).encode()
        digest = self._put_manifest(repository, digest_of(body), MANIFEST, body)
        platform = {"architecture": archive.architecture, "os": "linux"}
        return {"mediaType": MANIFEST, "digest": digest, "size": len(body), "platform": platform}

    def _push_layer(self, repository: str, stream: IO[bytes]) -> Descriptor:
        """Compress a layer, the same bytes each time, and push it unless it is there."""
        with tempfile.TemporaryFile() as packed:
            with gzip.GzipFile("", "wb", 6, packed, mtime=0) as writer:
                shutil.copyfileobj(stream, writer, _CHUNK)
            size = packed.tell()
            packed.seek(0)
            digest = f"sha256:{hashlib.file_digest(packed, 'sha256').hexdigest()}"
            packed.seek(0)
            self._push_blob(repository, digest, packed, size)
        return {"mediaType": LAYER, "digest": digest, "size": size}

    def _push_bytes(self, repository: str, media_type: str, data: bytes) -> Descriptor:
        self._push_blob(repository, digest_of(data), data, len(data))
        return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}

    def _push_blob(self, repository: str, digest: str, body: IO[bytes] | bytes, size: int) -> None:
        if self._request("HEAD", f"/v2/{repository}/blobs/{digest}", repository).status == 200:
            return
        upload = self._expect(202, "POST", f"/v2/{repository}/blobs/uploads/", repository)
        place = urljoin(self._url(""), upload.headers["Location"])
        place += ("&" if "?" in place else "?") + urlencode({"digest": digest})
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        self._expect(201, "PUT", place, repository, body=body, headers=headers)

    def _put_manifest(self, repository: str, name: str, media_type: str, body: bytes) -> str:
        path = f"/v2/{repository}/manifests/{name}"
        self._expect(201, "PUT", path, repository, body=body, headers={"Content-Type": media_type})
        return digest_of(body)

    def _expect(self, status: int, verb: str, path: str, repository: str, **more: Any) -> urllib3.BaseHTTPResponse:
        answer = self._request(verb, path, repository, **more)
        if answer.status != status:
            words = " ".join(answer.data.decode(errors="replace").split())[:300]
            raise RegistryError(f"{self.host} answered {answer.status} to {verb} of {repository}: {words}")
        return answer

    def _url(self, path: str) -> str:
        return urljoin(f"{'http' if self.insecure else 'https'}://{self.host}", path)

    def _request(
        self,
        verb: str,
        path: str,
        repository: str,
        body: IO[bytes] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """Ask; log in as the registry says and ask once more where it wants that."""
        for attempt in range(2):
            try:
                answer = self._pool.request(
                    verb, self._url(path), body=body, headers={**(headers or {}), **self._authorization}, redirect=False
                )
            except urllib3.exceptions.HTTPError as error:
                hint = "" if self.insecure else " (a registry without TLS needs --insecure)"
                raise RegistryError(f"{self.host} can't be reached: {error}{hint}") from error
            if answer.status != 401 or attempt:
                break
            self._log_in(answer.headers.get("WWW-Authenticate", ""), repository)
            if body is not None and not isinstance(body, bytes):
                body.seek(0)
        if answer.status in (401, 403):
            raise RegistryError(
                f"{self.host} refuses {verb} of {repository}: give --user and the password that may push"
            )
        return answer

    def _log_in(self, challenge: str, repository: str) -> None:
        kind, _, rest = challenge.partition(" ")
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        basic = {"Authorization": f"Basic {pair}"} if self.user else {}
        if kind.lower() != "bearer":
            self._authorization = basic
            return
        fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        query = {"service": fields.get("service", ""), "scope": f"repository:{repository}:pull,push"}
        answer = self._pool.request("GET", f"{fields['realm']}?{urlencode(query)}", headers=basic)
        if answer.status != 200:
            raise RegistryError(
                f"{fields['realm']} answered {answer.status}: give --user and the password that may push"
            )
        document = json.loads(answer.data)
        self._authorization = {"Authorization": f"Bearer {document.get('token') or document['access_token']}"}
