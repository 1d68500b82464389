"""Builds Go programs into the cache: one builder at a time, progress shown, and either a whole result or none."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from powertrain_cli.cluster.errors import ClusterError, DiskFullError, MissingToolError
from powertrain_cli.cluster.process import die_with_parent
from powertrain_cli.cluster.progress import Progress


@dataclass(frozen=True)
class GoBuild:
    """One program, of a module on disk or (`directory` None) of a published one, and the names it is started by."""

    title: str
    package: str
    output: str
    ldflags: str
    directory: Path | None = None
    links: Sequence[str] = ()
    # A hint for the person who waits; measured on two cores.
    minutes: str = "a few minutes"


def find_go(env: Mapping[str, str] = os.environ) -> Path | None:
    """The Go tool on PATH or where its installer puts it."""
    found = shutil.which("go", path=env.get("PATH")) or shutil.which("go", path="/usr/local/go/bin")
    return Path(found) if found else None


@contextlib.contextmanager
def _one_builder(lock: Path, title: str, progress: Progress) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.waiting(f"another process that builds {title}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(argv: Sequence[str], build: GoBuild, env: Mapping[str, str], progress: Progress) -> None:
    popen = subprocess.Popen(
        argv,
        cwd=build.directory,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=die_with_parent(),  # noqa: PLW1509 - one prctl, no Python objects of other threads
    )
    try:
        last = _follow(popen, build, progress)
        popen.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
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
    if (target / spec.output).is_file():
        return target
    go = find_go(env)
    if go is None:
        raise MissingToolError(
            f"{spec.title} is not in the cache and cannot be built without Go: install Go 1.26 or newer (go.dev/dl)"
        )
    try:
        with _one_builder(target.parent / f".{target.name}.lock", spec.title, progress):
            if not (target / spec.output).is_file():
                _build_into(spec, target, go, progress, env)
    except OSError as error:
        raise DiskFullError(f"cache {target.parent}: {error.strerror}") from error
    return target


def _build_into(spec: GoBuild, target: Path, go: Path, progress: Progress, env: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        stage = Path(scratch) / "stage"
        stage.mkdir()
        progress.waiting(f"Go to build {spec.title}, {spec.minutes} once")
        flags = ["-v", "-trimpath", "-ldflags", spec.ldflags]
        if spec.directory is not None:
            flags += ["-o", str(stage / spec.output)]
        verb = "build" if spec.directory is not None else "install"
        environment = {**env, "CGO_ENABLED": "0", "GOBIN": str(stage)}
        _run([str(go), verb, *flags, spec.package], spec, environment, progress)
        for link in spec.links:
            (stage / link).symlink_to(spec.output)
        stage.rename(target)
