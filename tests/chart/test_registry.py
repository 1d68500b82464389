"""`powertrain images push` against the registry that most sites run."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.test_image_archives import MACHINES, make_archive

from powertrain_devcluster.builds import prepare
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.testing.waits import SessionLogs
from powertrain_devcluster.tools import registry

INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.fixture
def server(tmp_path: Path, session_logs: SessionLogs) -> Iterator[registry.RegistryServer]:
    try:
        program = registry.program(prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))
    with registry.RegistryServer(program, tmp_path, logs=session_logs.folder) as running:
        yield running


def get(server: registry.RegistryServer, path: str, accept: str = "*/*") -> tuple[dict[str, str], bytes]:
    request = urllib.request.Request(f"http://{server.host}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as response:
        return dict(response.headers), response.read()


def test_a_registry_takes_both_architectures_under_one_tag(server: registry.RegistryServer, tmp_path: Path) -> None:
    archives = [str(make_archive(tmp_path / f"{each}.tar.gz", each)) for each in MACHINES]
    push = [sys.executable, "-m", "powertrain_cli", "images", "push", *archives, "--registry", f"{server.host}/edge"]
    for _ in range(2):
        result = subprocess.run([*push, "--insecure", "--json"], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
    [row] = json.loads(result.stdout)
    headers, body = get(server, "/v2/edge/powertrain-init/manifests/1.2.3", INDEX)
    assert (headers["Content-Type"], headers["Docker-Content-Digest"]) == (INDEX, row["digest"])
    for entry in json.loads(body)["manifests"]:
        _, manifest = get(server, f"/v2/edge/powertrain-init/manifests/{entry['digest']}", entry["mediaType"])
        for blob in [json.loads(manifest)["config"], *json.loads(manifest)["layers"]]:
            assert len(get(server, f"/v2/edge/powertrain-init/blobs/{blob['digest']}")[1]) == blob["size"]
