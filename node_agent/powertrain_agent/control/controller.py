"""Controller: the one object that changes a board; every change is written ahead, verified and can be taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from powertrain import PowerMode
from powertrain.api.v1alpha1 import ModeFloor
from powertrain.modes import KNOBS
from powertrain_agent.control.attributes import Attribute, Role, controlled, fan_values, values_for
from powertrain_agent.control.cores import repair_cpusets
from powertrain_agent.control.foreign_changes import Foreign, adopt
from powertrain_agent.control.move import MoveOutcome, Mover, Problem
from powertrain_agent.control.record import record
from powertrain_agent.control.report import BoardReport
from powertrain_agent.control.restore import restore
from powertrain_agent.control.snapshot import ANY, Entry, Phase, Snapshot, SnapshotError, SnapshotStore
from powertrain_agent.control.write_order import Destination
from powertrain_agent.hardware.board import Board, CorePolicy, discover
from powertrain_agent.hardware.cpu import online_path
from powertrain_agent.sysfs import Sysfs

__all__ = ["ApplyError", "BoardReport", "Controller"]


class ApplyError(Exception):
    """A mode that could not be applied; says what failed and where the board stands now."""

    def __init__(self, mode: PowerMode, problems: list[Problem], reason: str, stands: str) -> None:
        details = "; ".join([reason, *map(str, problems)] if reason else list(map(str, problems)))
        super().__init__(f"mode {mode} was not applied: {details}. {stands}")
        self.mode = mode
        self.problems = problems
        self.reason = reason


class Controller:
    """Applies, checks, resumes and restores. `pause` waits between tries and is a parameter for tests."""

    def __init__(
        self,
        sysfs: Sysfs,
        board: Board,
        store: SnapshotStore,
        core_policy: CorePolicy = CorePolicy.FIXED,
        min_cores: int = 1,
        pause: Callable[[float], None] = time.sleep,
        floor: ModeFloor | None = None,
    ) -> None:
        self.sysfs = sysfs
        self.board = board
        self.store = store
        self.core_policy = core_policy
        self.space = board.space(core_policy, min_cores, floor)
        self.mover = Mover(sysfs, pause)

    def refit(self, core_policy: CorePolicy, min_cores: int = 1, floor: ModeFloor | None = None) -> None:
        """Look at the board anew under another core policy or floor; nothing may be held, what is found counts."""
        self.board = discover(self.sysfs)
        self.core_policy = core_policy
        self.space = self.board.space(core_policy, min_cores, floor)

    def apply(self, mode: PowerMode) -> BoardReport:
        """Apply a mode and verify it. On failure the last verified mode, or the original settings, come back."""
        self.space.index(mode)
        try:
            snapshot, foreign = self._begin()
            outcome, snapshot = self._move_or_lower(snapshot, mode)
        except SnapshotError as error:
            raise ApplyError(mode, [], str(error), "Nothing was written.") from None
        if not outcome.problems:
            notes = (*outcome.notes, *self._settle(snapshot, mode))
            return BoardReport(mode, (), tuple(outcome.corrected), foreign, notes)
        raise ApplyError(mode, outcome.problems, "", self._roll_back(snapshot))

    def check(self) -> BoardReport:
        """Compare the board with the mode it holds; what somebody else changed is re-applied and remembered.

        A job may be running, so nothing is rolled back to what was found, whatever fails.
        """
        self.store.save_again()
        snapshot = self.store.load()
        mode = snapshot.held_mode() if snapshot else None
        if snapshot is None or mode is None:
            return BoardReport()
        snapshot, readings = self._with_new_attributes(snapshot)
        values = self._values_for(snapshot, mode)
        online = self.mover.online()
        active = [a for a in snapshot.attributes if a.path in values and a.active(online)]
        off = [a for a in active if readings[a.path] != values[a.path]]
        fans = [entry for entry in snapshot.entries if entry.attribute.role is Role.FAN]
        fan_taken = any(readings[entry.attribute.path] not in entry.ours for entry in fans)
        if snapshot.phase is Phase.SETTLED and not off and not fan_taken:
            return BoardReport(mode)
        return self._re_apply(snapshot, mode, readings, off)

    def resume(self) -> BoardReport:
        """Take up the work after a restart: the job's mode holds, in the middle of a change the lower of both."""
        return self.check()

    def restore(self) -> BoardReport:
        """Bring back what was found; what can't be is named and stays pending for the next call."""
        return restore(self.mover, self.store, self.sysfs)

    def set_fan_max(self, on: bool) -> BoardReport:
        """Set the fan to its maximum, or back to what was found; a fan that can't be set is no failure of a mode."""
        values = fan_values(self.board, self.sysfs)
        if not values:
            return BoardReport(notes=(f"fan: {self.board.capabilities['fan'].reason}",))
        snapshot = self.store.load() or self._fresh()
        if on:
            readings = self.mover.read(values)
            originals = {attribute: value for attribute in values if (value := readings[attribute.path]) is not None}
            snapshot = self._with_own_values(snapshot.adding(originals), {a.path: values[a] for a in originals})
            self.store.save(snapshot)
            target = {attribute.path: values[attribute] for attribute in originals}
        else:
            target = {e.attribute.path: e.original for e in reversed(snapshot.entries) if e.attribute.role is Role.FAN}
        members = tuple(attribute for attribute in snapshot.attributes if attribute.path in target)
        outcome = self.mover.move(members if on else members[::-1], target, set())
        if not on and not outcome.problems:
            self._keep_or_discard(snapshot.without({attribute.group for attribute in members}))
        return BoardReport(snapshot.mode, tuple(outcome.problems), tuple(outcome.corrected))

    def _keep_or_discard(self, snapshot: Snapshot) -> None:
        if snapshot.entries:
            self.store.save(snapshot)
        else:
            self.store.discard()

    def _begin(self) -> tuple[Snapshot, tuple[Foreign, ...]]:
        """Return the snapshot to work with: what others changed since is in it already."""
        stored = self.store.load()
        snapshot, readings = self._with_new_attributes(stored or self._fresh())
        online = self.mover.online()
        attributes = controlled(self.board, self.core_policy)
        unread = [a.path for a in attributes if a.active(online) and readings[a.path] is None]
        if unread:
            raise SnapshotError(
                f"the original settings can't be read, so they could not be restored: {', '.join(unread)}"
            )
        return adopt(snapshot, readings, online) if stored else (snapshot, ())

    def _fresh(self) -> Snapshot:
        return Snapshot(self.store.boot_id(), recorded=record(self.sysfs, self.board))

    def _with_new_attributes(self, snapshot: Snapshot) -> tuple[Snapshot, dict[str, str | None]]:
        """Take up attributes that can be read only now (a cluster that was offline), with what they show."""
        attributes = controlled(self.board, self.core_policy)
        readings = self.mover.read({*attributes, *snapshot.attributes})
        new = {a: text for a in attributes if (text := readings[a.path]) is not None}
        return snapshot.adding(new), readings

    def _values_for(self, snapshot: Snapshot, mode: PowerMode) -> dict[str, str]:
        return values_for(self.board, mode, snapshot.attributes, snapshot.originals)

    def _with_own_values(self, snapshot: Snapshot, values: Mapping[str, str]) -> Snapshot:
        """Add to each attribute the values it may hold from now on because of us."""
        online = self.mover.online()
        later = online | {cpu for cpu in self.board.cpu.present if values.get(online_path(cpu)) == "1"}
        readings = self.mover.read(e.attribute for e in snapshot.entries if e.attribute.role is Role.EMC_LOCK)
        locked = "1" in readings.values()

        def mark(entry: Entry) -> Entry:
            attribute = entry.attribute
            if attribute.path not in values or not attribute.active(later):
                return entry
            kernels_choice = not attribute.active(online) or (attribute.role is Role.EMC_RATE and not locked)
            ours = dict.fromkeys((*entry.ours, values[attribute.path], *((ANY,) if kernels_choice else ())))
            return replace(entry, ours=tuple(ours))

        return replace(snapshot, entries=tuple(map(mark, snapshot.entries)))

    def _move_to(self, snapshot: Snapshot, mode: PowerMode) -> tuple[MoveOutcome, Snapshot]:
        values = self._values_for(snapshot, mode)
        latest = [replace(self._with_own_values(snapshot, values), phase=Phase.MOVING, target=mode)]
        self.store.save(latest[0])

        def after_cores_up() -> Destination:
            larger, _ = self._with_new_attributes(latest[0])
            if larger != latest[0]:
                latest[0] = self._with_own_values(larger, self._values_for(larger, mode))
                self.store.save(latest[0])
            return latest[0].attributes, self._values_for(latest[0], mode)

        outcome = self.mover.move(snapshot.attributes, values, set(), after_cores_up)
        if self.core_policy is CorePolicy.HOTPLUG:
            outcome.notes += repair_cpusets(self.sysfs, self.mover.online())
        return outcome, latest[0]

    def _move_or_lower(self, snapshot: Snapshot, mode: PowerMode) -> tuple[MoveOutcome, Snapshot]:
        """Move the board; without a disk only down, below the recorded mode: power comes before records."""
        try:
            return self._move_to(snapshot, mode)
        except SnapshotError as error:
            held_mode, values = snapshot.held_mode(), self._values_for(snapshot, mode)
            recorded = all(e.ours for e in snapshot.entries if e.attribute.path in values)
            if held_mode is None or not recorded or not _is_lower(mode, held_mode):
                raise
            # What is on the disk restores the board all the same; only foreign changes are told apart less well.
            lower = replace(self._with_own_values(snapshot, values), phase=Phase.MOVING, target=mode)
            self.store.keep(lower)
            outcome = self.mover.move(lower.attributes, values, set())
            outcome.notes.append(f"the mode was lowered, but the record was not saved: {error}")
            return outcome, lower

    def _settle(self, snapshot: Snapshot, mode: PowerMode) -> tuple[str, ...]:
        """Note that the mode holds. The snapshot on the disk is right without it, only less sharp."""
        values = self._values_for(snapshot, mode)
        entries = tuple(
            replace(entry, ours=(value,))
            if (value := values.get(entry.attribute.path)) in entry.ours and value
            else entry
            for entry in snapshot.entries
        )
        settled_snapshot = replace(snapshot, entries=entries, phase=Phase.SETTLED, mode=mode, target=None)
        try:
            self.store.save(settled_snapshot)
        except SnapshotError as error:
            self.store.keep(settled_snapshot)
            return (str(error),)
        return ()

    def _roll_back(self, snapshot: Snapshot) -> str:
        if snapshot.mode is None:
            report = self.restore()
            rest = "; ".join(map(str, report.problems))
            return (
                f"Not all original settings could be restored: {rest}"
                if rest
                else "The original settings are restored."
            )
        try:
            outcome, moved = self._move_to(snapshot, snapshot.mode)
        except SnapshotError as error:
            return f"The mode before, {snapshot.mode}, could not be brought back: {error}"
        if outcome.problems:
            rest = "; ".join(map(str, outcome.problems))
            return f"The mode before, {snapshot.mode}, is back only in part: {rest}"
        self._settle(moved, snapshot.mode)
        return f"The mode before, {snapshot.mode}, is back."

    def _re_apply(
        self, snapshot: Snapshot, mode: PowerMode, readings: Mapping[str, str | None], off: list[Attribute]
    ) -> BoardReport:
        """Write a mode again under a job that may be running: disk trouble and failing files are reported, no more."""
        adopted, foreign = adopt(snapshot, readings, self.mover.online())
        values = self._values_for(adopted, mode)
        changed = tuple(
            Problem(a.path, a.group, values[a.path], readings[a.path], "changed by someone else") for a in off
        )
        notes: tuple[str, ...] = tuple(
            f"fan: something else controls it ({f.path} = {f.value})" for f in foreign if f.path not in values
        )
        try:
            outcome, adopted = self._move_to(adopted, mode)
        except SnapshotError as error:
            # Only what the snapshot on the disk already calls ours may be written again, and only where it must be.
            groups = {a.group for a in adopted.attributes if a in off or not a.active(self.mover.online())}
            ours = [e.attribute for e in adopted.entries if values.get(e.attribute.path) in e.ours]
            again = {a.path: values[a.path] for a in ours if a.group in groups}
            outcome = self.mover.move(adopted.attributes, again, set())
            left = [a for a in off if a.path not in again]
            outcome.problems += [Problem(a.path, a.group, values[a.path], readings[a.path], str(error)) for a in left]
            notes = (*notes, str(error))
        notes = (*notes, *outcome.notes)
        if not outcome.problems:
            notes = (*notes, *self._settle(self._without_fan_fight(adopted, foreign), mode))
        return BoardReport(mode, tuple(outcome.problems), (*changed, *outcome.corrected), foreign, notes)

    def _without_fan_fight(self, snapshot: Snapshot, foreign: tuple[Foreign, ...]) -> Snapshot:
        """A fan service writes every second: after its first write the fan is left to it."""
        fans = {e.attribute.path: e.attribute.group for e in snapshot.entries if e.attribute.role is Role.FAN}
        return snapshot.without({fans[change.path] for change in foreign if change.path in fans})


def _is_lower(mode: PowerMode, held_mode: PowerMode) -> bool:
    """Say whether no knob is above the held mode's."""
    return all(getattr(mode, knob) <= getattr(held_mode, knob) for knob in KNOBS)
