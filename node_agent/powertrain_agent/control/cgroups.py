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
    return state_of(pods(sysfs), pod_uids)


def pods(sysfs: Sysfs) -> frozenset[str] | None:
    """Return the uids of all pods that have a cgroup; None where the host can't be read."""
    roots = list(_kubepods(sysfs))
    if not roots:
        return None
    return frozenset(uid for root in roots for uid, _ in _pods_below(sysfs, root))


def directories(sysfs: Sysfs, pod_uids: Collection[str]) -> Iterator[str]:
    """Return the cgroup directories of these pods, in every hierarchy that has them."""
    uids = {uid.replace("_", "-") for uid in pod_uids}
    for root in _kubepods(sysfs):
        yield from (path for uid, path in _pods_below(sysfs, root) if uid in uids)


def state_of(present: Collection[str] | None, pod_uids: Collection[str]) -> PodCgroup:
    """Say what the pods on the host mean for those of a session."""
    if present is None:
        return PodCgroup.UNREADABLE
    alive = any(uid.replace("_", "-") in present for uid in pod_uids)
    return PodCgroup.PRESENT if alive else PodCgroup.ABSENT


def _kubepods(sysfs: Sysfs) -> Iterator[str]:
    # Looked at every second: a directory that its parent does not list is not looked into.
    top = sysfs.list(CGROUP)
    for base in (CGROUP, *(f"{CGROUP}/{controller}" for controller in _V1_CONTROLLERS if controller in top)):
        names = top if base == CGROUP else sysfs.list(base)
        yield from (f"{base}/{name}" for name in names if _is_kubepods(name))
        for parent in (f"{base}/{name}" for name in _NESTED if name in names):
            yield from (f"{parent}/{name}" for name in sysfs.list(parent) if _is_kubepods(name))


def _is_kubepods(name: str) -> bool:
    return name in ("kubepods", "kubepods.slice", "kubelet-kubepods.slice")


def _pods_below(sysfs: Sysfs, root: str) -> Iterator[tuple[str, str]]:
    """Return uid and directory of each pod, directly below or in its class of service."""
    for name in sysfs.list(root):
        path = f"{root}/{name}"
        if (uid := _uid_of(name)) is not None:
            yield uid, path
        if name in _QOS or any(name.endswith(f"kubepods-{qos}.slice") for qos in _QOS):
            yield from ((uid, f"{path}/{pod}") for pod in sysfs.list(path) if (uid := _uid_of(pod)) is not None)


def _uid_of(name: str) -> str | None:
    """Cgroupfs: pod<uid>; systemd: kubepods-burstable-pod<uid with underscores>.slice."""
    plain = name.removesuffix(".slice")
    if plain.startswith("pod"):
        return plain.removeprefix("pod")
    _, marker, uid = plain.rpartition("-pod")
    return uid.replace("_", "-") if marker else None
