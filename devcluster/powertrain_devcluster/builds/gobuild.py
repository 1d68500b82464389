"""Builds Go programs into the cache, with the progress shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import ClusterError, DiskFullError, MissingToolError
from powertrain_devcluster.paths import source_root
from powertrain_devcluster.process import end, give_way, start


@dataclass(frozen=True)
class GoBuild:
    """One program, of a module on disk or (`directory` None) of a published one, and the names it is started by."""

    title: str
    package: str
    output: str
    ldflags: str
    directory: Path | None = None
    links: Sequence[str] = ()
    tags: str = ""
    # Whether C is compiled too, which needs a C compiler.
    cgo: bool = False
    # A hint for the person who waits; measured on two cores.
    minutes: str = "a few minutes"


def find_go(env: Mapping[str, str] = os.environ) -> Path | None:
    """The Go tool on PATH or where its installer puts it."""
    path = shutil.which("go", path=env.get("PATH")) or shutil.which("go", path="/usr/local/go/bin")
    return Path(path) if path else None


def require_go(title: str, env: Mapping[str, str] = os.environ) -> Path:
    """A Go tool that is new enough, or one line that says what cannot be built without it."""
    module = source_root() / "hack" / "controlplane"
    minimum = _version(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text())
    go = find_go(env)
    # Asked inside the module, where a tool that can fetch the version which the module wants does so.
    version_text = _ask(go, module, env) if go is not None else ""
    if go is None or _version(r"^go version .*?\bgo(\d+)\.(\d+)", version_text) < minimum:
        problem = f"{go} says {version_text!r}" if go is not None else "there is none"
        minimum_text = ".".join(map(str, minimum))
        raise MissingToolError(
            f"{title} is not in the cache and cannot be built without Go: install Go {minimum_text} or newer; {problem}"
        )
    return go


def _ask(go: Path, module: Path, env: Mapping[str, str]) -> str:
    """What the tool says that it is, or its complaint."""
    argv = [str(go), "version"]
    result = subprocess.run(argv, cwd=module, env=dict(env), capture_output=True, text=True, check=False)
    return next(iter((result.stdout.strip() or result.stderr.strip()).splitlines()), "")


def _version(pattern: str, text: str) -> tuple[int, ...]:
    """Major and minor; nothing, which is less than any version, where the text has none."""
    match = re.search(pattern, text, re.MULTILINE)
    return tuple(map(int, match.groups())) if match else ()


def _run(argv: Sequence[str], build: GoBuild, env: Mapping[str, str], progress: Progress) -> None:
    popen = start(
        argv,
        cwd=build.directory,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    # A session of its own does not inherit how much ours gives way.
    give_way(popen.pid, os.nice(0))
    try:
        last = _follow(popen, build, progress)
        popen.wait()
    except BaseException:
        end(popen)
        raise
    if popen.returncode != 0:
        _explain(build, last)


def _follow(popen: subprocess.Popen[str], build: GoBuild, progress: Progress) -> list[str]:
    """Tell what the builder does until its output ends; returns the last lines."""
    compiled = 0
    last: list[str] = []
    assert popen.stderr is not None
    with popen.stderr as lines:
        for line in lines:
            last = [*last[-30:], line.rstrip()]
            # `go build -v` prints one import path per compiled package, and other lines with spaces in them.
            if line.startswith("go: downloading"):
                progress.waiting(f"Go to download the modules of {build.title}")
            elif " " not in line.strip():
                compiled += 1
                progress.waiting(f"Go to build {build.title}, {build.minutes} once ({compiled} packages)")
    return last


def _explain(build: GoBuild, last: Sequence[str]) -> None:
    text = "\n".join(last)
    if "no space left on device" in text:
        raise DiskFullError(f"building {build.title}: no space left on the disk; Go needs about 6 GB for its caches")
    cause = next((line for line in reversed(last) if " " in line.strip()), "no message")
    raise ClusterError(f"building {build.title} failed: {cause}")


def build(spec: GoBuild, target: Path, progress: Progress, env: Mapping[str, str] = os.environ) -> Path:
    """Make `target` (a folder with the program and its links) and return it; a ready one is returned at once."""
    if _whole(spec, target):
        return target
    go = require_go(spec.title, env)
    with staged(target, spec.title, progress, lambda entry: _whole(spec, entry)) as stage:
        if stage is not None:
            compile_into(spec, stage, go, progress, env)
    return target


def _whole(spec: GoBuild, target: Path) -> bool:
    return (target / spec.output).is_file()


def compile_into(spec: GoBuild, stage: Path, go: Path, progress: Progress, env: Mapping[str, str]) -> None:
    """Put the program and its links into a folder."""
    progress.waiting(f"Go to build {spec.title}, {spec.minutes} once")
    flags = ["-v", "-trimpath", "-ldflags", spec.ldflags, *(["-tags", spec.tags] if spec.tags else [])]
    if spec.directory is not None:
        flags += ["-o", str(stage / spec.output)]
    verb = "build" if spec.directory is not None else "install"
    environment = {**env, "CGO_ENABLED": "1" if spec.cgo else "0", "GOBIN": str(stage)}
    _run([str(go), verb, *flags, spec.package], spec, environment, progress)
    for link in spec.links:
        (stage / link).symlink_to(spec.output)
