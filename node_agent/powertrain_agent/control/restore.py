"""Restore: brings every attribute of the snapshot back, verifies it, and keeps what failed for the next try."""

from __future__ import annotations

from dataclasses import replace

from powertrain_agent.control.attributes import ONLINE_GROUP
from powertrain_agent.control.controller import Report
from powertrain_agent.control.cores import repair_cpusets
from powertrain_agent.control.drift import adopt
from powertrain_agent.control.move import Mover, Outcome
from powertrain_agent.control.snapshot import ANY, Entry, Phase, Snapshot, SnapshotError, SnapshotStore
from powertrain_agent.sysfs import Sysfs


def restore(mover: Mover, store: SnapshotStore, sysfs: Sysfs) -> Report:
    """Bring back what was found, or what somebody else set since. Needs no discovery: the snapshot says it all."""
    snapshot = store.load()
    if snapshot is None:
        return Report()
    before = mover.online()
    snapshot, foreign = adopt(snapshot, mover.read(snapshot.attributes), before)
    snapshot = replace(_returning(snapshot, before), phase=Phase.MOVING, mode=None, target=None)
    notes: tuple[str, ...] = ()
    try:
        store.save(snapshot)
    except SnapshotError as error:
        notes = (f"{error}; restoring all the same",)
    outcome = mover.move(snapshot.attributes, snapshot.found, _needed(snapshot, mover))
    returned = mover.online() - before
    notes = (*notes, *(repair_cpusets(sysfs, returned) if returned else ()))
    notes = (*notes, *_conclude(store, snapshot, outcome))
    return Report(None, tuple(outcome.problems), tuple(outcome.corrected), foreign, notes)


def _returning(snapshot: Snapshot, online: frozenset[int]) -> Snapshot:
    """A cluster that comes back online may show the kernel's defaults until it is written."""

    def mark(entry: Entry) -> Entry:
        return entry if entry.attribute.active(online) else replace(entry, ours=(*entry.ours, ANY))

    return replace(snapshot, entries=tuple(map(mark, snapshot.entries)))


def _needed(snapshot: Snapshot, mover: Mover) -> set[str]:
    """Return the CPUs that must be online for a moment: a policy whose CPUs are all offline keeps our limits."""
    online = mover.online()
    cores = {attribute.path for attribute in snapshot.attributes if attribute.group == ONLINE_GROUP}
    needed = set()
    for entry in snapshot.entries:
        attribute = entry.attribute
        if not attribute.active(online) and entry.ours:
            first = f"/sys/devices/system/cpu/cpu{attribute.cpus[0]}/online"
            needed |= {first} & cores
    return needed


def _conclude(store: SnapshotStore, snapshot: Snapshot, outcome: Outcome) -> tuple[str, ...]:
    failed = {problem.group for problem in outcome.problems}
    try:
        if failed:
            done = {attribute.group for attribute in snapshot.attributes} - failed
            store.save(snapshot.without(done))
        else:
            store.discard()
    except SnapshotError as error:
        return (str(error),)
    return ()
