"""Restore: brings every attribute of the snapshot back, verifies it, and keeps what failed for the next try."""

from __future__ import annotations

from dataclasses import replace

from powertrain_agent.control.attributes import Attribute, Role
from powertrain_agent.control.cores import repair_cpusets
from powertrain_agent.control.foreign_changes import adopt
from powertrain_agent.control.move import Mover, Problem
from powertrain_agent.control.report import BoardReport
from powertrain_agent.control.snapshot import ANY, Entry, Phase, Snapshot, SnapshotError, SnapshotStore
from powertrain_agent.hardware.cpu import online_path
from powertrain_agent.sysfs import Sysfs


def restore(mover: Mover, store: SnapshotStore, sysfs: Sysfs) -> BoardReport:
    """Bring back what was found, or what somebody else set since. Needs no discovery: the snapshot says it all."""
    snapshot = store.load()
    if snapshot is None:
        return BoardReport()
    before = mover.online()
    snapshot, foreign = adopt(snapshot, mover.read(snapshot.attributes), before)
    needed = _needed(snapshot, before)
    before_marks = snapshot
    snapshot = replace(_with_own_values(snapshot, before, needed), phase=Phase.MOVING, mode=None, target=None)
    notes: tuple[str, ...] = ()
    try:
        store.save(snapshot)
    except SnapshotError as error:
        notes = (f"{error}; restoring all the same",)
    outcome = mover.move(snapshot.attributes, snapshot.originals, needed)
    problems = (*outcome.problems, *_out_of_reach(before_marks, mover, outcome.written_groups))
    if any(attribute.role is Role.ONLINE for attribute in snapshot.attributes):
        notes = (*notes, *repair_cpusets(sysfs, mover.online()))
    notes = (*notes, *_conclude(store, snapshot, problems))
    return BoardReport(None, problems, tuple(outcome.corrected), foreign, notes)


def _needed(snapshot: Snapshot, online: frozenset[int]) -> set[str]:
    """Return the CPUs that must be online for a moment: a policy whose CPUs are all offline keeps our limits."""
    cores = {attribute.path for attribute in snapshot.attributes if attribute.role is Role.ONLINE}
    hidden = [e.attribute for e in snapshot.entries if e.ours and not e.attribute.active(online)]
    return {path for attribute in hidden for path in _first_core(attribute)} & cores


def _first_core(attribute: Attribute) -> tuple[str, ...]:
    return tuple(online_path(cpu) for cpu in attribute.cpus[:1])


def _with_own_values(snapshot: Snapshot, online: frozenset[int], needed: set[str]) -> Snapshot:
    """Note what a restore that is cut short leaves: CPUs online for a moment, clusters with the kernel's defaults."""

    def mark(entry: Entry) -> Entry:
        if entry.attribute.path in needed:
            return replace(entry, ours=(*entry.ours, "1"))
        return entry if entry.attribute.active(online) else replace(entry, ours=(*entry.ours, ANY))

    return replace(snapshot, entries=tuple(map(mark, snapshot.entries)))


def _out_of_reach(snapshot: Snapshot, mover: Mover, written_groups: set[str]) -> tuple[Problem, ...]:
    """Return limits that took no writes: their CPUs are offline by another's hand, or would not come online."""
    hidden = [e for e in snapshot.entries if e.ours and e.attribute.cpus and e.attribute.group not in written_groups]
    readings = mover.read(entry.attribute for entry in hidden)
    return tuple(
        Problem(e.attribute.path, e.attribute.group, e.original, readings[e.attribute.path], "its CPUs are offline")
        for e in hidden
        if readings[e.attribute.path] != e.original
    )


def _conclude(store: SnapshotStore, snapshot: Snapshot, problems: tuple[Problem, ...]) -> tuple[str, ...]:
    """Forget the snapshot, or keep what failed, with the CPUs that a failed policy needs for the next try."""
    failed = {problem.group for problem in problems}
    cpus = {cpu for attribute in snapshot.attributes if attribute.group in failed for cpu in attribute.cpus}
    paths = {online_path(cpu) for cpu in cpus}
    actual_values = {problem.path: (problem.actual,) for problem in problems if problem.actual is not None}
    rest = tuple(
        replace(entry, ours=(*entry.ours, *actual_values.get(entry.attribute.path, ())))
        for entry in snapshot.entries
        if entry.attribute.group in failed or entry.attribute.path in paths
    )
    try:
        if rest:
            store.save(replace(snapshot, entries=rest))
        else:
            store.discard()
    except SnapshotError as error:
        return (str(error),)
    return ()
