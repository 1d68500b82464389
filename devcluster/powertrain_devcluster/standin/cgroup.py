"""Folders that look like the control groups (v2, cgroupfs names) which a kubelet keeps while a pod lives."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

_ROOT = Path("sys/fs/cgroup")
_QOS = {"BestEffort": "besteffort", "Burstable": "burstable"}


class PodCgroup:
    """One pod's folder; it exists from before the first container until after the last one."""

    def __init__(self, node_root: Path, pod: dict[str, Any]) -> None:
        qos = _QOS.get((pod.get("status") or {}).get("qosClass", ""), "")
        self.path = node_root / _ROOT / "kubepods" / qos / f"pod{pod['metadata']['uid']}"

    def create(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "cgroup.procs").write_text("")

    def add(self, container_id: str, pid: int) -> None:
        folder = self.path / container_id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text(f"{pid}\n")

    def drop(self, container_id: str) -> None:
        shutil.rmtree(self.path / container_id, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def prepare(node_root: Path) -> None:
    """An empty hierarchy; what an earlier stand-in left is gone, as its processes are."""
    root = node_root / _ROOT
    shutil.rmtree(root / "kubepods", ignore_errors=True)
    (root / "kubepods").mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
