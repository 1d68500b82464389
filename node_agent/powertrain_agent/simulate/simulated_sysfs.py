"""SimulatedSysfs: a file tree that answers reads and writes as a Jetson's kernel would."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from powertrain import devices
from powertrain_agent.simulate import cgroups
from powertrain_agent.simulate.behaviour import TYPICAL, behaviour_file
from powertrain_agent.simulate.dynamics import Instant, World
from powertrain_agent.simulate.faults import ActiveFaults, FaultKind, Faults
from powertrain_agent.simulate.kernel_rules import KernelRules
from powertrain_agent.simulate.layout import CPU, Layout
from powertrain_agent.simulate.once import once
from powertrain_agent.simulate.readings import Reading, readings
from powertrain_agent.simulate.state import BoardState, load_file, locked, state_file
from powertrain_agent.sysfs import DEFAULT_TIMEOUT_S, Sysfs, SysfsError

T = TypeVar("T")

STUCK_S = 60.0  # how long a stuck file really hangs when nobody releases it


class _File(NamedTuple):
    """What a path stands for: where it really is, what the kernel computes there, and whether a policy owns it."""

    real: str
    render: Reading | None
    has_policy: bool


class _Look:
    """What one read, or several at once, go by: the board's own files are looked at once for all of them."""

    def __init__(self, faults: ActiveFaults, state: BoardState, instant: Callable[[ActiveFaults, BoardState], Instant]):
        self.faults, self.state, self._compute = faults, state, instant

    @once
    def instant(self) -> Instant:
        """Return the board as it is; most files do not need it."""
        return self._compute(self.faults, self.state)


class SimulatedSysfs(Sysfs):
    """The port of a simulated board; all it knows lies in files below the root, so many processes may share it.

    `before_write` and `after_write` are called with path and text around every write that reaches the kernel: a test
    that raises there has killed its process at that point.
    """

    def __init__(
        self,
        root: Path | str,
        now: Callable[[], float] = time.time,
        time_scale: float = 1.0,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
    ) -> None:
        super().__init__(Path(root).resolve(), timeout_s)
        self._now = now
        self.time_scale = time_scale
        self._state = state_file(self.root)
        self._load = load_file(self.root)
        self._behaviour = behaviour_file(self.root)
        self.faults = Faults(self.root)
        self.layout = Layout(devices.get(self.state().board))
        self.rules = KernelRules(self.layout)
        self.readings = readings(self.layout)
        self.before_write: Callable[[str, str], None] | None = None
        self.after_write: Callable[[str, str], None] | None = None
        self._released = threading.Event()
        self._files: dict[str, _File] = {}
        self._refreshed: dict[str, str] = {}
        self._absorbed: dict[str, tuple[int, int, int]] = {}

    def state(self) -> BoardState:
        """Return what the board remembers."""
        state = self._state.load()
        if state is None:
            raise FileNotFoundError(f"{self.root} holds no simulated board; SimulatedBoard.create builds one")
        return state

    def board_s(self) -> float:
        """Return the board's time, which runs `time_scale` times as fast as the clock."""
        return self._now() * self.time_scale

    def instant(self) -> Instant:
        """Return the board as it is now."""
        return self._instant(self.faults.now(), self.state())

    def _instant(self, faults: ActiveFaults, state: BoardState) -> Instant:
        behaviour = self._behaviour.load() or TYPICAL
        return Instant(World(self.layout, self.rules, faults, state, self._load.load(), self.board_s(), behaviour))

    def read_now(self, path: str) -> str:
        """Read a file: what the kernel computes is computed now, all else is the file's text."""
        return self._read_at(path, self._look())

    def read_together(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the texts of several files, all as of the same instant."""
        if not paths:
            return {}
        # Some hundred times a second where time runs fast: the faults are looked at once, too.
        faults = self.faults.now()
        if faults.find(FaultKind.STUCK):
            return super()._in_time(paths[0], "read", lambda: self._read_all(paths, self._look()))
        return self._read_all(paths, _Look(faults, self.state(), self._instant))

    def _read_all(self, paths: Sequence[str], look: _Look) -> dict[str, str]:
        return {path: self._read_at(path, look) for path in paths}

    def _read_each_now(self, paths: Sequence[str]) -> dict[str, str | None]:
        look = self._look()
        texts: dict[str, str | None] = {}
        for path in paths:
            try:
                texts[path] = self._read_at(path, look)
            except SysfsError:
                texts[path] = None
        return texts

    def _in_time(self, path: str, doing: str, work: Callable[[], T]) -> T:
        """Only a file that was told to get stuck can hang here; the rest needs no thread to wait in."""
        return super()._in_time(path, doing, work) if self.faults.find(FaultKind.STUCK) else work()

    def _look(self) -> _Look:
        return _Look(self.faults.now(), self.state(), self._instant)

    def _read_at(self, path: str, look: _Look) -> str:
        file = self._file(path)
        if look.faults.any:
            self._check(file.real, path, "read")
            fault = self.faults.strike(FaultKind.FAIL_READ, file.real)
            if fault is not None:
                raise SysfsError(path, fault.errno, "read")
        if file.has_policy and self.rules.is_silent(file.real, look.state.requests):
            raise SysfsError(path, errno.EBUSY, "read")
        if file.render is None or not super().exists(path):
            return super().read_now(path)
        try:
            return file.render(look.instant)
        except OSError as error:
            raise SysfsError(path, error.errno or errno.EIO, "read") from None

    def write_now(self, path: str, text: str) -> None:
        """Write a control attribute by the kernel's rules."""
        real, doing = self._real(path), f"write {text!r} to"
        if self.before_write is not None:
            self.before_write(real, text)
        self._check(real, path, doing)
        if not super().exists(path):
            raise SysfsError(path, errno.ENOENT, doing)
        fault = self.faults.strike(FaultKind.FAIL_WRITE, real)
        if fault is not None:
            raise SysfsError(path, fault.errno, doing)
        if real in self.rules.attributes:
            try:
                self._store(real, text.strip())
            except OSError as error:
                raise SysfsError(path, error.errno or errno.EIO, doing) from None
        elif not cgroups.store(self.root, real, text.strip()):
            raise SysfsError(path, errno.EACCES, doing)
        if self.after_write is not None:
            self.after_write(real, text)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory that have not vanished."""
        base = self._real(path).rstrip("/")
        any_vanished = any(fault.kind == FaultKind.VANISH for fault in self.faults.all())
        names = super().list(path)
        return [name for name in names if not self._has_vanished(f"{base}/{name}")] if any_vanished else names

    def exists(self, path: str) -> bool:
        """Say whether there is a file or directory that has not vanished."""
        return super().exists(path) and not self._has_vanished(self._real(path))

    def is_writable(self, path: str) -> bool:
        """Say whether the kernel would let the file be written."""
        real = self._real(path)
        return self.exists(path) and (real in self.rules.attributes or cgroups.is_writable(real))

    def release_stuck(self) -> None:
        """Let every hanging read and write return."""
        self._released.set()
        self._released = threading.Event()

    def commit(self, changes: Mapping[str, int | str], **fields: object) -> None:
        """Make requests true: remember them, then bring the plain files into line (in that order, for kill -9)."""
        with locked(self.root):
            self._commit(changes, **fields)

    def refresh(self) -> None:
        """Write what the kernel computes into the plain files, for a shell or jtop that reads the tree itself."""
        instant = self.instant()
        for path, render in self.readings.items():
            try:
                text = render(instant)
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise
                continue
            if self._refreshed.get(path) != text:
                self._replace(path, text, 0o644 if path in self.rules.attributes else 0o444)
                self._refreshed[path] = text

    def settle_files(self) -> None:
        """Write every control attribute as it should read; needed after a kill between state and files."""
        with locked(self.root):
            self._project({}, self.rules.visible(self.state().requests))

    def absorb(self) -> None:
        """Take over what a shell wrote into the plain files, as if it had gone through the kernel."""
        with locked(self.root):
            for path in self.rules.attributes:
                if path not in self.readings and self._is_touched(path):
                    self._absorb(path)

    def _is_touched(self, path: str) -> bool:
        """Say whether the file is another than at the last look: most ever are the same, and are looked at often."""
        status = os.stat(f"{self.root}{path}")  # noqa: PTH116
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        touched = self._absorbed.get(path) != stamp
        self._absorbed[path] = stamp
        return touched

    def _absorb(self, path: str) -> None:
        text = (self.root / path.lstrip("/")).read_text(encoding="utf-8").strip()
        # An empty file is one that a shell has opened and is about to write.
        if text in ("", self.rules.visible(self.state().requests)[path]):
            return
        with contextlib.suppress(OSError):
            self._store_locked(path, text)
        self._replace(path, self.rules.visible(self.state().requests)[path])

    def _store(self, real: str, text: str) -> None:
        with locked(self.root):
            self._store_locked(real, text)

    def _store_locked(self, real: str, text: str) -> None:
        if self.faults.strike(FaultKind.IGNORE_WRITE, real):
            return
        if self.faults.strike(FaultKind.ROUND_WRITE, real):
            text = self.rules.lower(real, text)
        requests = self.state().requests
        changes = self.rules.accept(real, text, requests, self.instant().mode.emc_hz)
        if self._forbidden_rise({**requests, **changes}):
            return
        self._commit(changes)

    def _forbidden_rise(self, requests: Mapping[str, int | str]) -> bool:
        if not (self.layout.device.descending_only or self.faults.find(FaultKind.DESCENDING_ONLY)):
            return False
        old = self.rules.limit_mode(self.state().requests, top=True)
        new = self.rules.limit_mode(requests, top=True)
        return new.cpu_khz > old.cpu_khz or new.gpu_hz > old.gpu_hz or new.emc_hz > old.emc_hz

    def _commit(self, changes: Mapping[str, int | str], **fields: object) -> None:
        old = self.state()
        now = self.instant()
        fields = {"settle_from_w": now.power_w, "settle_since_s": now.world.now_s} | now.earlier | fields
        new = replace(old, requests={**old.requests, **changes}, **fields)  # type: ignore[arg-type]
        self._state.save(new)
        self._project(self.rules.visible(old.requests), self.rules.visible(new.requests))

    def _project(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        for path, text in after.items():
            if before.get(path) != text:
                self._replace(path, text)
        if before.get(f"{CPU}/online") != after[f"{CPU}/online"]:
            cgroups.follow_hotplug(self.root, self.layout, self.rules.online(self.state().requests))

    def _check(self, real: str, path: str, doing: str) -> None:
        if self._has_vanished(real):
            raise SysfsError(path, errno.ENOENT, doing)
        if self.faults.strike(FaultKind.STUCK, real):
            self._released.wait(STUCK_S)

    def _has_vanished(self, real: str) -> bool:
        return self.faults.find(FaultKind.VANISH, real) is not None

    def _real(self, path: str) -> str:
        return self._file(path).real

    def _file(self, path: str) -> _File:
        file = self._files.get(path)
        if file is None:
            real = self.resolve(path)
            has_policy = real.rpartition("/")[0] in self.layout.policies
            file = self._files[path] = _File(real, self.readings.get(real), has_policy)
        return file

    def _replace(self, path: str, text: str, mode: int = 0o644) -> None:
        """Replace a file's text at once: a reader outside never sees half of it; a missing file stays missing."""
        target = f"{self.root}{path}"
        if not os.path.exists(target):  # noqa: PTH110 (the hot path of every simulated write)
            return
        beside = f"{self.root}/sim/write-{os.getpid()}-{threading.get_ident()}"
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            os.write(handle, f"{text}\n".encode())
        finally:
            os.close(handle)
        os.replace(beside, target)  # noqa: PTH105
