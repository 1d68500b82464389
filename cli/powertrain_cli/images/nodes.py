"""Commands that bring image archives onto a node: into containerd at once, or into the folder that k3s reads."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from powertrain_cli.errors import CliError, Exit
from powertrain_cli.images.archive import Archive

FOLDER = "/var/lib/rancher/k3s/agent/images"
CTR = "k3s ctr --namespace k8s.io"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Way:
    """How images come to nodes: which ctr, or (with `folder`) a file for k3s' next start."""

    ctr: str = CTR
    folder: bool = False

    def command(self, archive: Archive, user: str) -> str:
        """Return the shell command that reads the archive from its standard input."""
        root = "" if user == "root" else "sudo "
        if not self.folder:
            # The ctr of some releases reads plain archives only.
            unpack = "gzip -dc | " if archive.path.suffix == ".gz" else ""
            return f"{unpack}{root}{self.ctr} images import -"
        target = shlex.quote(f"{FOLDER}/{archive.path.name}")
        # k3s imports what appears there, so a half copied file has another name.
        inner = f"mkdir -p {FOLDER} && cat > {target}.part && mv {target}.part {target}"
        return f"{root}sh -c {shlex.quote(inner)}"

    def one_liner(self, archives: Sequence[Archive]) -> list[str]:
        """Return what somebody types on a node beside whose shell the archives are."""
        return [f"cat {shlex.quote(each.path.name)} | {self.command(each, '')}" for each in archives]


def login(target: str) -> str:
    """Return the user of USER@HOST; none means that ssh decides."""
    return target.partition("@")[0] if "@" in target else ""


def import_over_ssh(target: str, archives: Sequence[Archive], way: Way) -> list[Archive]:
    """Send a node the archives for its architecture; return those."""
    machine = _run(["ssh", target, "uname -m"], None, target).strip()
    fitting = [each for each in archives if each.architecture == _MACHINES.get(machine, machine)]
    if not fitting:
        raise CliError(f"{target} is a {machine}, and none of the archives is for that")
    for archive in fitting:
        _run(["ssh", target, way.command(archive, login(target))], archive, target)
    return fitting


def import_here(archives: Sequence[Archive], way: Way) -> list[Archive]:
    """Import the archives for this machine's architecture on this machine; return those."""
    machine = _run(["uname", "-m"], None, "this machine").strip()
    fitting = [each for each in archives if each.architecture == _MACHINES.get(machine, machine)]
    if not fitting:
        raise CliError(f"this machine is a {machine}, and none of the archives is for that")
    for archive in fitting:
        _run(["sh", "-c", way.command(archive, "root")], archive, "this machine")
    return fitting


def _run(command: Sequence[str], archive: Archive | None, where: str) -> str:
    what = f"importing {archive.path.name} on {where}" if archive else where
    try:
        if archive is None:
            result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        else:
            with archive.path.open("rb") as file:
                result = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CliError(f"{command[0]} is not on this machine: install it, or use --print", Exit.ENVIRONMENT) from error
    if result.returncode != 0:
        answer = result.stderr.strip() or result.stdout.strip() or f"exit code {result.returncode}"
        raise CliError(f"{what}: {answer.splitlines()[-1]}", Exit.ENVIRONMENT)
    return result.stdout
