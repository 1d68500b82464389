"""`powertrain images` against a registry that takes nothing on trust, and nodes behind an `ssh` on PATH."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import platform
import re
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from powertrain_cli.errors import CliError
from powertrain_cli.images import archive, registry
from powertrain_cli.images.commands import PASSWORD, app
from powertrain_devcluster.builds import images as builder

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def make_archive(path: Path, architecture: str, name: str = "powertrain-init:1.2.3", text: str = "hello") -> Path:
    """Write an image archive as the release does, with two layers."""
    layers = []
    for number in (1, 2):
        root = path.parent / f"{path.name}-root{number}"
        root.mkdir()
        (root / f"file{number}").write_text(f"{text} {number} {architecture if number == 2 else ''}")
        layer = path.parent / f"{path.name}-layer{number}.tar"
        layers.append((layer, builder.write_layer(root, layer)))
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    builder.write_archive(plain, name, layers, {"Entrypoint": ["/x"]}, MACHINES[architecture])
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(plain.read_bytes()))
    return path


class StrictRegistry(http.server.ThreadingHTTPServer):
    """Takes blobs whose digest is right, and manifests whose blobs it has; wants a login if it has a password."""

    def __init__(self, password: str = "", token: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.uploads = 0
        self.password, self.token = password, token

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: StrictRegistry
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refused(self) -> bool:
        authorization = self.headers.get("Authorization", "")
        basic = f"Basic {base64.b64encode(f'me:{self.server.password}'.encode()).decode()}"
        if self.path.startswith("/token"):
            self.answer(200 if authorization == basic else 401, json.dumps({"token": self.server.token}).encode())
            return True
        expected = f"Bearer {self.server.token}" if self.server.token else basic
        if not self.server.password or authorization == expected:
            return False
        realm = f'Bearer realm="http://{self.server.host}/token",service="reg"' if self.server.token else "Basic"
        length = int(self.headers.get("Content-Length", 0))
        self.rfile.read(length)
        self.answer(401, WWW_Authenticate=realm)
        return True

    def do_HEAD(self) -> None:
        if not self.refused():
            self.answer(200 if self.path.rpartition("/")[2] in self.server.blobs else 404)

    def do_GET(self) -> None:
        if self.refused():
            return
        kind, body = self.server.manifests.get(self.path, ("", b""))
        self.answer(200, body, Content_Type=kind) if kind else self.answer(404)

    def do_POST(self) -> None:
        if not self.refused():
            assert re.fullmatch(r"/v2/[a-z0-9/-]+/blobs/uploads/", self.path)
            self.server.uploads += 1
            self.answer(202, Location=f"{self.path}{self.server.uploads}?state=a")

    def do_PUT(self) -> None:
        if self.refused():
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        address = urlsplit(self.path)
        if "/blobs/uploads/" in self.path:
            query = parse_qs(address.query)
            right = query == {"state": ["a"], "digest": [digest]}
            self.server.blobs |= {digest: body} if right else {}
            self.answer(201 if right else 400)
            return
        document, kind = json.loads(body), self.headers["Content-Type"]
        assert document["mediaType"] == kind
        blobs = [document["config"], *document["layers"]] if kind == registry.MANIFEST else []
        digests = {f"sha256:{hashlib.sha256(each).hexdigest()}" for _, each in self.server.manifests.values()}
        missing = [each["digest"] for each in blobs if len(self.server.blobs.get(each["digest"], b"")) != each["size"]]
        missing += [each["digest"] for each in document.get("manifests", []) if each["digest"] not in digests]
        if missing:
            self.answer(400, f"MANIFEST_BLOB_UNKNOWN {missing}".encode())
            return
        self.server.manifests[address.path] = (kind, body)
        self.answer(201)


@pytest.fixture
def serve() -> Iterator[Any]:
    servers = []

    def start(**options: str) -> StrictRegistry:
        server = StrictRegistry(**options)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def archives(tmp_path: Path) -> list[str]:
    return [str(make_archive(tmp_path / f"{each}.tar.gz", each)) for each in MACHINES]


def pulled(server: StrictRegistry, path: str, architecture: str) -> list[str]:
    """Return the names of all files of an image, as a node would unpack it."""
    _, index = server.manifests[path]
    [entry] = [m for m in json.loads(index)["manifests"] if m["platform"]["architecture"] == architecture]
    _, manifest = server.manifests[path.rpartition("/")[0] + "/" + entry["digest"]]
    layers = json.loads(manifest)["layers"]
    config = json.loads(server.blobs[json.loads(manifest)["config"]["digest"]])
    plain = [gzip.decompress(server.blobs[layer["digest"]]) for layer in layers]
    assert [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in plain] == config["rootfs"]["diff_ids"]
    return [name for each in plain for name in tarfile.open(fileobj=io.BytesIO(each)).getnames()]


def test_both_architectures_become_one_tag_and_a_second_push_uploads_nothing(serve: Any, archives: list[str]) -> None:
    server = serve()
    options = ["push", *archives, "--registry", f"{server.host}/edge", "--insecure", "--json"]
    [image] = json.loads(CliRunner().invoke(app, options, catch_exceptions=False).stdout)
    path = "/v2/edge/powertrain-init/manifests/1.2.3"
    assert image["image"] == f"{server.host}/edge/powertrain-init:1.2.3"
    assert image["digest"] == registry.digest_of(server.manifests[path][1])
    assert pulled(server, path, "arm64") == ["file1", "file2"]
    assert pulled(server, path, "amd64") == ["file1", "file2"]
    uploads = server.uploads
    # Two configurations, two layers that differ and one that both share.
    assert uploads == 5
    CliRunner().invoke(app, options, catch_exceptions=False)
    assert server.uploads == uploads


def test_an_architecture_that_the_tag_has_already_stays(serve: Any, archives: list[str]) -> None:
    server = serve()
    for each in archives:
        CliRunner().invoke(app, ["push", each, "--registry", f"http://{server.host}"], catch_exceptions=False)
    _, index = server.manifests["/v2/powertrain-init/manifests/1.2.3"]
    assert [each["platform"]["architecture"] for each in json.loads(index)["manifests"]] == ["amd64", "arm64"]


@pytest.mark.parametrize("token", ["", "abc"], ids=["basic", "token"])
def test_it_logs_in_as_the_registry_wants(
    serve: Any, archives: list[str], token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(password="secret", token=token)
    monkeypatch.setenv(PASSWORD, "secret")
    options = ["push", *archives, "--registry", server.host, "--insecure", "--user", "me"]
    CliRunner().invoke(app, options, catch_exceptions=False)
    assert "/v2/powertrain-init/manifests/1.2.3" in server.manifests
    monkeypatch.setenv(PASSWORD, "wrong")
    with pytest.raises(registry.RegistryError, match="--user and the password that may push"):
        CliRunner().invoke(app, options, catch_exceptions=False)


def test_a_registry_that_is_not_there_is_one_line(archives: list[str]) -> None:
    with pytest.raises(registry.RegistryError, match=r"127\.0\.0\.1:1 can't be reached"):
        CliRunner().invoke(app, ["push", *archives, "--registry", "127.0.0.1:1", "--insecure"], catch_exceptions=False)


def test_a_file_that_is_no_image_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(b"no")
    with pytest.raises(CliError, match=r"x\.tar\.gz: not an archive of one image"):
        archive.read(path)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `ssh` and a `sudo` that run here, and a `ctr` that notes what it gets."""
    programs = tmp_path / "bin"
    programs.mkdir()
    log = tmp_path / "node.log"
    texts = {
        "ssh": 'echo "ssh $1" >> LOG; exec sh -c "$2"',
        "sudo": 'echo sudo >> LOG; exec "$@"',
        "ctr": 'test "$*" = "images import -" && sha256sum | cut -d" " -f1 >> LOG',
    }
    for name, text in texts.items():
        (programs / name).write_text(f"#!/bin/sh\n{text.replace('LOG', str(log))}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return log


def test_each_node_gets_the_archives_for_its_architecture(node: Path, archives: list[str]) -> None:
    [mine] = [path for path in archives if MACHINES[Path(path).name.split(".")[0]] == platform.machine()]
    options = ["import", *archives, "--ssh", "root@a,b", "--ctr", "ctr"]
    output = CliRunner().invoke(app, options, catch_exceptions=False).stdout
    digest = hashlib.sha256(gzip.decompress(Path(mine).read_bytes())).hexdigest()
    assert node.read_text().split("\n")[:-1] == [
        *("ssh root@a", "ssh root@a", digest),
        *("ssh b", "ssh b", "sudo", digest),
    ]
    assert output.endswith("now install with --set image.local=true\n")


def test_what_it_prints_does_the_same(node: Path, archives: list[str], tmp_path: Path) -> None:
    options = ["import", archives[0], "--print", "--ctr", "ctr"]
    line = CliRunner().invoke(app, options, catch_exceptions=False).stdout
    assert os.waitstatus_to_exitcode(os.system(f"cd {tmp_path} && {line}")) == 0
    plain = gzip.decompress(Path(archives[0]).read_bytes())
    assert node.read_text().split() == ["sudo", hashlib.sha256(plain).hexdigest()]


def test_the_folder_of_k3s_gets_a_whole_file(node: Path, archives: list[str]) -> None:
    line = CliRunner().invoke(app, ["import", archives[0], "--print", "--folder"], catch_exceptions=False).stdout
    target = f"/var/lib/rancher/k3s/agent/images/{Path(archives[0]).name}"
    assert f"cat > {target}.part && mv {target}.part {target}" in line


def test_a_node_that_refuses_is_named(node: Path, archives: list[str]) -> None:
    with pytest.raises(CliError, match=r"importing \S+ on root@a: "):
        CliRunner().invoke(app, ["import", *archives, "--ssh", "root@a", "--ctr", "false"], catch_exceptions=False)


@pytest.mark.parametrize("where", [[], ["--here", "--print"]])
def test_it_wants_one_place(where: list[str], archives: list[str]) -> None:
    with pytest.raises(CliError, match="choose a target"):
        CliRunner().invoke(app, ["import", *archives, *where], catch_exceptions=False)
