"""Kueue's own kinds for the test of its example: out of its Go module into the cache."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from powertrain_cli.cluster import gobuild
from powertrain_cli.cluster.errors import MissingToolError
from powertrain_cli.cluster.paths import cache_dir
from powertrain_cli.cluster.progress import Progress
from powertrain_cli.cluster.staging import staged

VERSION = "v0.14.0"
# Those that the example uses.
PLURALS = ("resourceflavors", "clusterqueues", "localqueues")
_TITLE = f"Kueue's kinds {VERSION}"


def kinds(progress: Progress) -> list[Path]:
    """The files of the CRDs, fetched when they are not there."""
    target = cache_dir() / "kueue" / VERSION
    if not _whole(target):
        go = gobuild.require_go(_TITLE)
        with staged(target, _TITLE, progress, _whole) as stage:
            if stage is not None:
                progress.waiting(f"Go to download {_TITLE}")
                _fetch(go, stage)
    return _files(target)


def _files(folder: Path) -> list[Path]:
    return [folder / f"kueue.x-k8s.io_{plural}.yaml" for plural in PLURALS]


def _whole(folder: Path) -> bool:
    return all(file.is_file() for file in _files(folder))


def _fetch(go: Path, stage: Path) -> None:
    (stage.parent / "go.mod").write_text("module kinds\n")
    command = [str(go), "mod", "download", "-json", f"sigs.k8s.io/kueue@{VERSION}"]
    done = subprocess.run(command, cwd=stage.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingToolError(f"{_TITLE} can't be had here: {' '.join((done.stderr or done.stdout).split())}")
    bases = Path(json.loads(done.stdout)["Dir"]) / "config/components/crd/bases"
    for file in _files(bases):
        shutil.copyfile(file, stage / file.name)
