"""Builds k3s, and the containerd shim that it starts, into the cache: once per pinned version."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from powertrain_devcluster.builds import gobuild
from powertrain_devcluster.builds.gomodule import GoModule, copy
from powertrain_devcluster.builds.progress import Progress, Silent
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.paths import cache_dir, source_root

RELEASE = "v1.35.0+k3s1"
MODULE = "github.com/k3s-io/k3s"
PROGRAM, SHIM = "k3s", "containerd-shim-runc-v2"
# Names by which k3s plays other programs, beside those that it links by itself.
_LINKS = ("containerd", "ctr", "crictl", "kubectl")
_TITLE = f"k3s {RELEASE}"
_TAGS = "ctrd netcgo osusergo providerless urfave_cli_no_docs sqlite_omit_load_extension apparmor seccomp"


def _module() -> GoModule:
    pin = source_root() / "hack" / "k3s"
    match = re.search(rf"^require {re.escape(MODULE)} (v\S+)$", (pin / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{pin / 'go.mod'} requires no {MODULE}")
    return GoModule(MODULE, match.group(1), pin)


def entry(env: Mapping[str, str] = os.environ) -> Path:
    """Where the programs are in the cache once they were built."""
    return cache_dir(env) / "k3s" / f"{_module().version}-{platform.machine()}"


def is_cached(env: Mapping[str, str] = os.environ) -> bool:
    """Whether a build is not needed."""
    return _whole(entry(env))


def _whole(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (PROGRAM, SHIM))


def programs(progress: Progress | None = None, env: Mapping[str, str] = os.environ) -> Path:
    """The folder with k3s, its shim and the programs that k3s plays, built when it is not there."""
    target = entry(env)
    if _whole(target):
        return target
    go = gobuild.require_go(_TITLE, env)
    if shutil.which("gcc", path=env.get("PATH")) is None:
        raise MissingToolError(f"{_TITLE} is not in the cache and cannot be built without a C compiler: install gcc")
    shown_progress = progress or Silent()
    with staged(target, _TITLE, shown_progress, _whole) as stage:
        if stage is not None:
            _build_into(stage, go, shown_progress, env)
    return target


def _build_into(stage: Path, go: Path, progress: Progress, env: Mapping[str, str]) -> None:
    progress.waiting(f"Go to download {_TITLE}")
    source = copy(_module(), go, stage.parent, env)
    # k3s installs these manifests by itself; its own build copies them too.
    shutil.copytree(source / "manifests", source / "pkg/deploy/embed", dirs_exist_ok=True)
    for spec in _builds(source, _go_version(go, source, env)):
        gobuild.compile_into(spec, stage, go, progress, env)


def _builds(source: Path, go_version: str) -> tuple[gobuild.GoBuild, gobuild.GoBuild]:
    main = gobuild.GoBuild(
        title=_TITLE,
        directory=source,
        package="./cmd/server",
        output=PROGRAM,
        ldflags=_stamps(go_version),
        tags=_TAGS,
        cgo=True,
        links=_LINKS,
        minutes="8 to 15 minutes",
    )
    shim = gobuild.GoBuild(
        title=f"the containerd shim of {_TITLE}",
        directory=source,
        package="github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        output=SHIM,
        ldflags="-s -w",
        minutes="half a minute",
    )
    return main, shim


def _stamps(go_version: str) -> str:
    """k3s does not start without the first three, and `kubectl version` fails without the others."""
    major, minor = RELEASE.removeprefix("v").split(".")[:2]
    commit = _module().version.rpartition("-")[2]
    values = {
        f"{MODULE}/pkg/version.Version": RELEASE,
        f"{MODULE}/pkg/version.GitCommit": commit[:8],
        f"{MODULE}/pkg/version.UpstreamGolang": go_version,
    }
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        values |= {f"{package}.gitVersion": RELEASE, f"{package}.gitMajor": major, f"{package}.gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])


def _go_version(go: Path, source: Path, env: Mapping[str, str]) -> str:
    """The version that builds there: a module may ask for another one than the tool's own."""
    command = [str(go), "env", "GOVERSION"]
    result = subprocess.run(command, cwd=source, env=dict(env), capture_output=True, text=True, check=True)
    return result.stdout.strip()
