"""The core policy: whether cores may go offline, how many must stay, and the repair of old cpusets afterwards."""

from __future__ import annotations

import json
from collections.abc import Collection

from powertrain_agent.hardware.board import Board, CorePolicy
from powertrain_agent.hardware.files import format_cpus, optional, parse_cpus
from powertrain_agent.sysfs import Sysfs, SysfsError

CPU_MANAGER_STATE = "/var/lib/kubelet/cpu_manager_state"
CPUSET_V1 = "/sys/fs/cgroup/cpuset"


def effective_policy(sysfs: Sysfs, board: Board, requested_policy: CorePolicy) -> tuple[CorePolicy, str]:
    """Return the policy in force and, where it is not the one asked for, why."""
    if requested_policy is CorePolicy.FIXED:
        return requested_policy, ""
    if not board.can("cores"):
        return CorePolicy.FIXED, f"cores stay fixed: {board.capabilities['cores'].reason}"
    try:
        manager = json.loads(sysfs.read(CPU_MANAGER_STATE))["policyName"]
    except SysfsError as error:
        return CorePolicy.FIXED, f"cores stay fixed: the kubelet's CPU manager is not known ({error})"
    except (ValueError, KeyError, TypeError):
        return CorePolicy.FIXED, f"cores stay fixed: {CPU_MANAGER_STATE} can't be understood"
    if sysfs.is_replaced(CPU_MANAGER_STATE):
        why = "the kubelet has replaced its CPU manager's state: delete the agent's pod to read it again"
        return CorePolicy.FIXED, f"cores stay fixed: {why}"
    if manager != "none":
        return CorePolicy.FIXED, f"cores stay fixed: the kubelet's CPU manager is {manager!r}, which pins pods to cores"
    return requested_policy, ""


def repair_cpusets(sysfs: Sysfs, returned: Collection[int]) -> tuple[str, ...]:
    """Give CPUs that came back to the pods' cpusets again; returns what could not be repaired.

    The old hierarchy drops an offlined CPU from every cpuset for good; the new one recovers by itself.
    Parents come first: a child can only have CPUs that its parent has.
    """
    if not sysfs.exists(f"{CPUSET_V1}/cpuset.cpus"):
        return ()
    failed: list[str] = []
    todo = [f"{CPUSET_V1}/{name}" for name in sysfs.list(CPUSET_V1) if name.startswith("kubepods")]
    above = dict.fromkeys(todo, CPUSET_V1)
    while todo:
        group = todo.pop(0)
        children = [f"{group}/{name}" for name in sysfs.list(group) if sysfs.exists(f"{group}/{name}/cpuset.cpus")]
        above |= dict.fromkeys(children, group)
        todo += children
        failed += _give(sysfs, group, above[group], returned)
    return tuple(failed)


def _give(sysfs: Sysfs, group: str, parent: str, returned: Collection[int]) -> list[str]:
    has = set(parse_cpus(optional(sysfs, f"{group}/cpuset.cpus") or ""))
    may = set(parse_cpus(optional(sysfs, f"{parent}/cpuset.cpus") or ""))
    complete = has | (set(returned) & may)
    if complete == has:
        return []
    try:
        sysfs.write(f"{group}/cpuset.cpus", format_cpus(complete))
    except SysfsError as error:
        return [f"pods in {group} lack CPUs {format_cpus(complete - has)}: {error}"]
    return []
