"""Is a pod alive: looks for its cgroup directory on the host, in both hierarchies and both naming schemes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum

from powertrain_agent.sysfs import Sysfs

CGROUP = "/sys/fs/cgroup"
_QOS = ("besteffort", "burstable")
_V1_CONTROLLERS = ("pids", "memory", "cpu,cpuacct", "cpu", "cpuset", "systemd", "unified")
_NESTED = ("kubelet.slice", "kubelet")  # a kubelet that runs in a container puts its pods one level down


class PodCgroup(StrEnum):
    """What the host's cgroups say about a session's pods."""

    PRESENT = "present"
    ABSENT = "absent"
    UNREADABLE = "unreadable"


def look(sysfs: Sysfs, pod_uids: Collection[str]) -> PodCgroup:
    """Say whether any of the pods has a cgroup. A host without any pod's cgroups is one that can't be read."""
    roots = list(_kubepods(sysfs))
    if not roots:
        return PodCgroup.UNREADABLE
    names = {name for root in roots for name in _pod_names(sysfs, root)}
    alive = any(_same(name, uid) for uid in pod_uids for name in names)
    return PodCgroup.PRESENT if alive else PodCgroup.ABSENT


def _kubepods(sysfs: Sysfs) -> Iterator[str]:
    for base in (CGROUP, *(f"{CGROUP}/{controller}" for controller in _V1_CONTROLLERS)):
        for parent in (base, *(f"{base}/{name}" for name in _NESTED)):
            yield from (f"{parent}/{name}" for name in sysfs.list(parent) if _is_kubepods(name))


def _is_kubepods(name: str) -> bool:
    return name in ("kubepods", "kubepods.slice", "kubelet-kubepods.slice")


def _pod_names(sysfs: Sysfs, root: str) -> Iterator[str]:
    for name in sysfs.list(root):
        yield name
        if name in _QOS or any(name.endswith(f"kubepods-{qos}.slice") for qos in _QOS):
            yield from sysfs.list(f"{root}/{name}")


def _same(name: str, uid: str) -> bool:
    """Cgroupfs: pod<uid>; systemd: kubepods-burstable-pod<uid with underscores>.slice."""
    plain = name.removesuffix(".slice")
    return plain == f"pod{uid}" or plain.endswith(f"-pod{uid.replace('-', '_')}")
