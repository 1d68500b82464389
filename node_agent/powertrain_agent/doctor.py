"""Doctor: tries every knob of a board (read, write, verify, restore), says what would fix it, puts everything back."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from powertrain import PowerMode
from powertrain_agent.control.attributes import Role, controlled, fan_values
from powertrain_agent.control.clocks import off_clock
from powertrain_agent.control.controller import ApplyError, Controller
from powertrain_agent.control.snapshot import SNAPSHOT, SnapshotError, SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware.board import Board, CorePolicy, discover
from powertrain_agent.hardware.capability import Access, Capability
from powertrain_agent.hardware.files import optional
from powertrain_agent.hints import hints
from powertrain_agent.mounts import family_of, missing
from powertrain_agent.remedies import remedy
from powertrain_agent.sysfs import Sysfs
from powertrain_agent.telemetry import SourceError, SourceUnavailableError, SysfsSource

CLOCKS = {"cpu": "cpu_khz", "gpu": "gpu_hz", "emc": "emc_hz"}
TITLES = {
    "cores": "CPU cores",
    "cpu": "CPU clock",
    "gpu": "GPU clock",
    "emc": "memory clock",
    "power": "power sensors",
    "thermal": "temperatures",
    "over-current": "over-current counters",
    "fan": "fan",
    "tpc": "GPU power gating",
}


@dataclass(frozen=True)
class KnobReport:
    """One knob or sensor: each step is True (works), False (does not) or None (not tried, or nothing to try)."""

    knob: str
    title: str
    read: bool
    write: bool | None
    verify: bool | None
    restore: bool | None
    value: str
    reason: str = ""
    fix: str = ""

    @property
    def healthy(self) -> bool:
        """Say whether every step that was tried worked."""
        return self.read and False not in (self.write, self.verify, self.restore)


@dataclass(frozen=True)
class DoctorReport:
    """What the doctor found."""

    is_jetson: bool
    board: str
    module: str
    l4t: str
    read_only: bool
    knobs: tuple[KnobReport, ...]
    mount_family: str
    missing_mounts: tuple[str, ...]
    verdict: str
    healthy: bool
    hints: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return the report for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class _Trial:
    write: bool | None = None
    verify: bool | None = None
    restore: bool | None = None
    reason: str = ""


def run_doctor(
    sysfs: Sysfs,
    read_only: bool = False,
    state_dir: Path = Path("/var/lib/powertrain/doctor"),
    try_cores: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> DoctorReport:
    """Examine a board. Writes only on a Jetson that no agent works on, and restores after each knob.

    `state_dir` holds the write-ahead snapshot; what a killed doctor left there is restored first.
    """
    board = discover(sysfs)
    if not board.identity.is_jetson:
        verdict = f"{board.identity.doubt}: run it on the board itself; nothing was touched."
        return _report(board, sysfs, True, (), verdict, False)
    busy = _agents_snapshot(state_dir)
    why_not = "not tried: --read-only" if read_only else busy
    store = SnapshotStore(StateDir(state_dir), sysfs)
    if not why_not:
        why_not = _recover(sysfs, board, store, pause)
        board = discover(sysfs)
    examine = _Examination(sysfs, board, store, why_not, try_cores, pause)
    knobs = tuple(examine.knob(capability) for capability in board.capabilities.values())
    return _report(board, sysfs, bool(why_not), knobs, _verdict(board, knobs, why_not), _works(knobs))


class _Examination:
    """Tries one knob after the other."""

    def __init__(
        self,
        sysfs: Sysfs,
        board: Board,
        store: SnapshotStore,
        why_not: str,
        try_cores: bool,
        pause: Callable[[float], None],
    ) -> None:
        self.sysfs, self.board, self.store = sysfs, board, store
        self.why_not, self.try_cores, self.pause = why_not, try_cores, pause

    def knob(self, capability: Capability) -> KnobReport:
        """Return the report on one knob or sensor."""
        value, unreadable = self._value(capability)
        read = capability.access is not Access.MISSING and not unreadable
        trial = self._trial(capability) if read else _Trial()
        reason = unreadable or trial.reason or capability.reason
        report = KnobReport(
            capability.knob,
            TITLES[capability.knob],
            read,
            trial.write,
            trial.verify,
            trial.restore,
            value,
            reason,
        )
        return replace(
            report, fix=remedy(report.knob, report.healthy, capability, self.board, family_of(self.board.identity))
        )

    def _value(self, capability: Capability) -> tuple[str, str]:
        """Return what the knob shows now, or why it can't be read."""
        mode = self.board.present_mode
        match capability.knob:
            case "power" if capability.access is not Access.MISSING:
                return self._power()
            case "thermal":
                celsius = self.board.thermal.temperatures_c(self.sysfs).values()
                return (f"{max(celsius):.1f} °C at most" if celsius else ""), ""
            case "over-current":
                events = self.board.thermal.over_current_events(self.sysfs)
                return ", ".join(f"{name} {count}" for name, count in events.items()), ""
            case "fan":
                return (optional(self.sysfs, self.board.fan.pwm_path) or "" if self.board.fan else ""), ""
            case "tpc":
                return self.board.tpc_mask, ""
        values = {"cores": mode.cores, "cpu": mode.cpu_khz, "gpu": mode.gpu_hz, "emc": mode.emc_hz}
        value = values.get(capability.knob, 1)
        return (f"{value} {capability.unit}" if value > 1 else ""), ""

    def _power(self) -> tuple[str, str]:
        try:
            reading = SysfsSource(self.sysfs, self.board.sensors, others_every=1).read()
        except (SourceError, SourceUnavailableError) as error:
            return "", str(error)
        rails = ", ".join(f"{name} {watts:.2f}" for name, watts in reading.rails_w.items())
        return f"{reading.power_w:.2f} W ({rails})", ""

    def _trial(self, capability: Capability) -> _Trial:
        if capability.knob not in ("cores", "cpu", "gpu", "emc", "fan"):
            return _Trial()
        if not capability.writable:
            return _Trial(write=False)
        if self.why_not:
            return _Trial(reason=self.why_not)
        if capability.knob == "fan":
            return self._try_fan()
        if capability.knob == "cores" and not self.try_cores:
            return _Trial(reason="not tried: cores stay fixed unless a PowerPolicy allows hotplug; try it with --cores")
        return self._try_mode(capability.knob)

    def _try_mode(self, knob: str) -> _Trial:
        """Apply a mode that differs in this knob alone, with every other knob out of reach."""
        alone = _only(self.board, knob)
        policy = CorePolicy.HOTPLUG if knob == "cores" else CorePolicy.FIXED
        controller = Controller(self.sysfs, alone, self.store, policy, pause=self.pause)
        mode = _neighbour(controller, self.board.present_mode, knob)
        if mode is None:
            return _Trial(reason="only one value is legal, so there is nothing to try")
        before = self._readings(controller)
        try:
            controller.apply(mode)
        except ApplyError as error:
            back = self._readings(controller) == before
            return _Trial(
                write=False, restore=back, reason="; ".join([error.reason, *map(str, error.problems)]).strip("; ")
            )
        off = off_clock(self.sysfs, alone, mode)
        clocks = ", ".join(f"{path} shows {value}" for path, value in off.items())
        report = controller.restore()
        restored = report.ok and self._readings(controller) == before
        problems = "; ".join(str(problem) for problem in report.problems)
        return _Trial(True, not off, restored, "; ".join(filter(None, (clocks, problems))))

    def _try_fan(self) -> _Trial:
        controller = Controller(self.sysfs, _only(self.board, "fan"), self.store, pause=self.pause)
        paths = [attribute.path for attribute in fan_values(self.board, self.sysfs)]
        before = [optional(self.sysfs, path) for path in paths]
        try:
            report = controller.set_fan_max(True)
            back = controller.set_fan_max(False)
        except SnapshotError as error:
            return _Trial(write=False, reason=str(error))
        restored = back.ok and [optional(self.sysfs, path) for path in paths] == before
        reason = "; ".join(str(problem) for problem in (*report.problems, *back.problems))
        return _Trial(report.ok, report.ok, restored, reason)

    def _readings(self, controller: Controller) -> dict[str, str | None]:
        attributes = controlled(controller.board, controller.core_policy)
        readings = controller.mover.read(attributes)
        locked = any(readings[a.path] == "1" for a in attributes if a.role is Role.EMC_LOCK)
        # Unlocked, the memory clock moves by itself: only its switches and cap tell whether it was restored.
        return {a.path: readings[a.path] for a in attributes if locked or a.role is not Role.EMC_RATE}


def _only(board: Board, knob: str) -> Board:
    capabilities = {
        name: capability if name == knob else capability.locked("not under examination")
        for name, capability in board.capabilities.items()
    }
    return replace(board, capabilities=capabilities)


def _neighbour(controller: Controller, now: PowerMode, knob: str) -> PowerMode | None:
    """Return the next lower mode in one knob (less power, never more), or the next higher at the lowest."""
    field = {**CLOCKS, "cores": "cores"}[knob]
    legal = sorted({getattr(mode, field) for mode in controller.space})
    present = getattr(now, field)
    lower = [value for value in legal if value < present]
    higher = [value for value in legal if value > present]
    value = lower[-1] if lower else (higher[0] if higher else None)
    return None if value is None else replace(controller.space[0], **{field: value})


def _agents_snapshot(state_dir: Path) -> str:
    """An agent's own snapshot lies one directory up; while it is there, the board belongs to that agent."""
    snapshot = state_dir.parent / SNAPSHOT
    return f"not tried: an agent works on this board ({snapshot} is there)" if snapshot.exists() else ""


def _recover(sysfs: Sysfs, board: Board, store: SnapshotStore, pause: Callable[[float], None]) -> str:
    """Restore what an earlier, killed doctor left; return why nothing further should be tried."""
    try:
        report = Controller(sysfs, board, store, CorePolicy.HOTPLUG, pause=pause).restore()
    except SnapshotError as error:
        return f"not tried: {error}"
    left = "; ".join(str(problem) for problem in report.problems)
    return f"not tried: what an earlier run changed could not be restored: {left}" if left else ""


def _works(knobs: tuple[KnobReport, ...]) -> bool:
    """The agent needs power and the GPU's clock; the rest is better to have."""
    needed = {knob.knob: knob for knob in knobs if knob.knob in ("power", "gpu")}
    return all(knob.healthy for knob in needed.values()) and all(knob.restore is not False for knob in knobs)


def _verdict(board: Board, knobs: tuple[KnobReport, ...], why_not: str) -> str:
    name = f"{board.device.title if board.device else board.name} (L4T {board.identity.l4t or 'unknown'})"
    stuck = [knob.title for knob in knobs if knob.restore is False]
    if stuck:
        return f"{name}: NOT restored: {', '.join(stuck)}. Run restore.sh in the state directory, or reboot."
    faulty = [knob.title for knob in knobs if not knob.healthy and knob.knob != "tpc"]
    if why_not:
        lead = f"{name}: read only"
        return f"{lead}; everything can be read." if not faulty else f"{lead}; does not work: {', '.join(faulty)}."
    if not faulty:
        return f"{name}: every knob can be set, verified and restored."
    if not _works(knobs):
        return f"{name}: PowerTrain can't work here: {', '.join(faulty)}."
    return f"{name}: PowerTrain can work here, without {', '.join(faulty)}."


def _report(
    board: Board, sysfs: Sysfs, read_only: bool, knobs: tuple[KnobReport, ...], verdict: str, healthy: bool
) -> DoctorReport:
    identity = board.identity
    family = family_of(identity)
    absent = missing(sysfs, family) if identity.is_jetson else ()
    name = board.name if identity.is_jetson else ""
    mount = family.name if identity.is_jetson else ""
    return DoctorReport(
        identity.is_jetson,
        name,
        identity.module,
        identity.l4t,
        read_only,
        knobs,
        mount,
        absent,
        verdict,
        healthy,
        _hints(board, sysfs) if identity.is_jetson else (),
    )


def _hints(board: Board, sysfs: Sysfs) -> tuple[str, ...]:
    supply_v = None
    with suppress(SourceError, SourceUnavailableError):
        supply_v = SysfsSource(sysfs, board.sensors).read().supply_v
    return hints(board, supply_v, board.thermal.over_current_events(sysfs))
