"""Fetches a published Go module and copies it, so that it can be built as a main module, with its own replacements."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.errors import ClusterError, MissingToolError


@dataclass(frozen=True)
class GoModule:
    """One version of a module.

    With `pin` (a folder with go.mod and go.sum of ours) the sources must have the checksum that go.sum names; Go's
    checksum database, which does not know such a version, is not asked about this one module.
    """

    path: str
    version: str
    pin: Path | None = None

    def __str__(self) -> str:
        return f"{self.path}@{self.version}"


def fetch(module: GoModule, go: Path, scratch: Path, env: Mapping[str, str] = os.environ) -> Path:
    """The folder of the module in Go's own cache, read-only; `scratch` is for files of the download."""
    place = scratch / "pin"
    place.mkdir()
    environment = dict(env)
    if module.pin is None:
        (place / "go.mod").write_text("module fetch\n")
    else:
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(module.pin / name, place / name)
        excepted = [each for each in (env.get("GONOSUMDB", ""), module.path) if each]
        environment["GONOSUMDB"] = ",".join(excepted)
    command = [str(go), "mod", "download", "-json", str(module)]
    result = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise MissingToolError(f"{module} can't be downloaded: {' '.join((result.stderr or result.stdout).split())}")
    about = json.loads(result.stdout)
    if module.pin is not None:
        _check(module, about["Sum"], (module.pin / "go.sum").read_text())
    return Path(about["Dir"])


def _check(module: GoModule, checksum: str, pinned: str) -> None:
    """Go adds a checksum that is missing instead of refusing the module."""
    if f"{module.path} {module.version} {checksum}" not in pinned.splitlines():
        raise ClusterError(f"{module}: its checksum {checksum} is not the one in {module.pin}/go.sum")


def copy(module: GoModule, go: Path, scratch: Path, env: Mapping[str, str] = os.environ) -> Path:
    """A copy of the module that can be changed and built inside, in a folder of `scratch`."""
    source = fetch(module, go, scratch, env)
    target = scratch / "source"
    # Go's cache is read-only, and a copy of its modes would be too.
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder in [target, *(path for path in target.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)
    return target
