"""Control groups for a real node: a subtree of the machine's that the node sees as the whole."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.errors import UnsupportedMachineError

_V2_LEAF = "supervisor"


@dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy; `current` is the group of the calling process in it."""

    mount: Path
    version: int
    options: str
    current: str

    def group(self, name: str) -> Path:
        """Below our own group, so that limits on us hold for the node; v2 allows that at the top only."""
        parent = self.current.lstrip("/") if self.version == 1 else ""
        return self.mount / parent / name


def hierarchies(proc: Path = Path("/proc/self")) -> list[Hierarchy]:
    """What is mounted, from mountinfo and the process's own groups."""
    current: dict[str, str] = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        current[controllers] = path
    by_root: dict[Path, Hierarchy] = {}
    for line in (proc / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        mount = Path(left.split()[4])
        if kind == "cgroup2":
            by_root[mount] = Hierarchy(mount, 2, "", current.get("", "/"))
        elif kind == "cgroup":
            names = [each for each in options.split(",") if each in ",".join(current).split(",")]
            if names:
                by_root[mount] = Hierarchy(mount, 1, ",".join(names), current.get(",".join(names), "/"))
    return list(by_root.values())


def create(name: str) -> list[Path]:
    """Make a group of that name in every hierarchy; those of v1 cpusets must be filled before use."""
    groups = []
    try:
        for hierarchy in hierarchies():
            group = hierarchy.group(name)
            group.mkdir()
            groups.append(group)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if hierarchy.version == 1 and (group / file).exists():
                    (group / file).write_text((group.parent / file).read_text())
    except OSError as error:
        for group in groups:
            with contextlib.suppress(OSError):
                group.rmdir()
        raise UnsupportedMachineError(f"control groups cannot be made here: {error}") from error
    if not groups:
        raise UnsupportedMachineError("no control groups are mounted on this machine")
    return groups


def enter(groups: list[Path]) -> None:
    """Move the calling process; a cgroup namespace made afterwards has these groups as its roots."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def mount_own_view() -> None:
    """Inside new mount and cgroup namespaces: mount every hierarchy again, so that ours is the root."""
    for hierarchy in hierarchies():
        options = [] if hierarchy.version == 2 else ["-o", _mount_options(hierarchy.options)]
        kind = "cgroup2" if hierarchy.version == 2 else "cgroup"
        # The kernel refuses to mount a hierarchy on top of itself.
        _run("umount", "--lazy", str(hierarchy.mount))
        _run("mount", "-t", kind, *options, "none", str(hierarchy.mount))
        if hierarchy.version == 2:
            _leave_root(hierarchy.mount)


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise UnsupportedMachineError(f"{' '.join(command)}: {result.stderr.strip().splitlines()[0]}")


def _mount_options(options: str) -> str:
    return f"none,{options}" if options.startswith("name=") else options


def _leave_root(mount: Path) -> None:
    """v2 forbids processes in a group whose children have controllers, so ours move to a leaf."""
    leaf = mount / _V2_LEAF
    leaf.mkdir(exist_ok=True)
    for pid in (mount / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            (leaf / "cgroup.procs").write_text(pid)
    for controller in (mount / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (mount / "cgroup.subtree_control").write_text(f"+{controller}")
