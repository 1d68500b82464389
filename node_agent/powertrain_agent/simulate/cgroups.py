"""The simulated host's control groups: pods come and go, and the old hierarchy loses CPUs that go offline."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from powertrain_agent.simulate.layout import Layout
from powertrain_agent.simulate.tree import cpu_list, rewrite

ROOT = "sys/fs/cgroup"
Driver = Literal["cgroupfs", "systemd"]


def pod_path(uid: str, version: int, driver: Driver = "cgroupfs", qos: str = "besteffort") -> str:
    """Return where a kubelet puts the control group of a pod, below the root."""
    base = f"{ROOT}/cpuset" if version == 1 else ROOT
    if driver == "cgroupfs":
        return f"{base}/kubepods/{qos}/pod{uid}"
    return f"{base}/kubepods.slice/kubepods-{qos}.slice/kubepods-{qos}-pod{uid.replace('-', '_')}.slice"


def add_pod(root: Path, uid: str, layout: Layout, driver: Driver = "cgroupfs") -> Path:
    """Make the control group of a pod, with one container in it."""
    group = root / pod_path(uid, layout.cgroup_version, driver)
    container = group / "container"
    container.mkdir(parents=True, exist_ok=True)
    online = (root / "sys/devices/system/cpu/online").read_text(encoding="utf-8")
    for directory in (group.parent, group, container):
        if layout.cgroup_version == 1:
            (directory / "cpuset.cpus").write_text(online, encoding="utf-8")
        else:
            (directory / "cpuset.cpus.effective").write_text(online, encoding="utf-8")
        (directory / "cgroup.procs").write_text("", encoding="utf-8")
    return group


def remove_pod(root: Path, uid: str, layout: Layout) -> None:
    """Take a pod's control group away, whichever driver made it."""
    for driver in ("cgroupfs", "systemd"):
        shutil.rmtree(root / pod_path(uid, layout.cgroup_version, driver), ignore_errors=True)


def remove_all_pods(root: Path) -> None:
    """Take every pod away (a reboot)."""
    for group in [*(root / ROOT).glob("**/pod*"), *(root / ROOT).glob("**/kubepods-*-pod*.slice")]:
        shutil.rmtree(group, ignore_errors=True)


def is_writable(path: str) -> bool:
    """Say whether a file is a CPU set that an administrator may write."""
    return path.startswith(f"/{ROOT}/") and path.endswith("/cpuset.cpus")


def store(root: Path, path: str, text: str) -> bool:
    """Write a CPU set; return False for any other file."""
    if not is_writable(path):
        return False
    (root / path.lstrip("/")).write_text(f"{text}\n", encoding="utf-8")
    return True


def follow_hotplug(root: Path, layout: Layout, online: Collection[int]) -> None:
    """Do what the kernel does when CPUs come or go: version 1 forgets lost ones for good, version 2 recovers."""
    if layout.cgroup_version == 2:
        for file in (root / ROOT).glob("**/cpuset.cpus.effective"):
            rewrite(file, f"{cpu_list(online)}\n")
        return
    top = root / ROOT / "cpuset"
    for file in top.glob("**/cpuset.cpus"):
        before = parse_cpu_list(file.read_text(encoding="utf-8"))
        left = set(online) if file.parent == top else before & set(online)
        if left != before:
            rewrite(file, f"{cpu_list(left)}\n")


def parse_cpu_list(text: str) -> set[int]:
    """Read the kernel's list form, such as 0-3,6."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        cpus.update(range(int(low), int(high or low) + 1))
    return cpus
