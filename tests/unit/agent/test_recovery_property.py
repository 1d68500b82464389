"""Whatever happens to the agent, the board comes back: generated histories of applies, faults, foreign hands and kills.

The kernel's rules are those of the simulated board; here they run in memory so that hundreds of histories fit into a
test run. A kill raises at the n-th write, to the board or to the disk, with the disk's file half written.
"""

import errno
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from powertrain import devices
from powertrain.modes import PowerMode
from powertrain_agent.control.attributes import Role, controlled, cores_of, values_for
from powertrain_agent.control.controller import ApplyError, Controller
from powertrain_agent.control.snapshot import SNAPSHOT, Phase, SnapshotStore, decode
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware.board import Board, CorePolicy, discover
from powertrain_agent.simulate import tree
from powertrain_agent.simulate.kernel_rules import KernelRules
from powertrain_agent.simulate.layout import BOOT_ID, CPU, Layout
from powertrain_agent.sysfs import Sysfs, SysfsError

# Strict and newer ordering, with and without a readable offline cluster, lock and override, both caps, odd core order.
BOARDS = ("orin-agx", "orin-agx-11", "orin-nano", "orin-nx-16", "xavier-agx", "xavier-nx", "nano", "tx2-nx")
HISTORIES = 400
DISCOVERED: dict[tuple[str, str], Board] = {}


class Killed(BaseException):
    """kill -9: nothing of the agent runs after it."""


class KillSwitch:
    """Counts writes and kills at one of them."""

    def __init__(self) -> None:
        self.left: int | None = None

    def tick(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            raise Killed
        self.left -= 1


class MemoryKernel(Sysfs):
    """The simulated kernel's rules over a tree of files that is only read; what was asked of it lives in memory."""

    def __init__(self, root: Path, name: str, preset: int, kill_switch: KillSwitch) -> None:
        super().__init__(root, timeout_s=None)
        self.layout = Layout(devices.get(name))
        self.rules = KernelRules(self.layout)
        self.kill_switch = kill_switch
        self.log: list[tuple[str, str]] = []
        self.faults: list[dict[str, object]] = []
        self.boots = 0
        self.boot(preset)

    def boot(self, preset: int) -> None:
        self.boots += 1
        self.force(self.rules.boot(self.presets[preset % len(self.presets)]))

    @property
    def presets(self) -> list:
        return list(tree.presets(self.layout.device))

    def force(self, requests: dict[str, int | str]) -> None:
        self.requests = {**getattr(self, "requests", {}), **requests}
        self.visible = self.rules.visible(self.requests)
        locked = self.rules.emc_hz(self.requests)
        rate = str(locked or self.rules.emc_ceiling(self.requests))
        self.visible[self.layout.emc + ("/rate" if self.layout.bpmp else "/clk_rate")] = rate

    def hidden(self, path: str) -> bool:
        """The newest kernels do not even show the files of a cluster that is offline."""
        policy = path.rsplit("/", 1)[0]
        cpus = self.layout.policies.get(policy)
        off = cpus is not None and not any(self.requests[f"{CPU}/cpu{cpu}/online"] for cpu in cpus)
        return off and self.layout.l4t >= 36

    def read_now(self, path: str) -> str:
        if path == BOOT_ID:
            return f"boot-{self.boots}"
        if self.hidden(path):
            raise SysfsError(path, errno.EBUSY, "read")
        if path in self.visible:
            return self.visible[path]
        return super().read_now(path)

    def write_now(self, path: str, text: str) -> None:
        self.kill_switch.tick()
        self.log.append((path, text))
        fault = self._fault(path)
        if fault == "ignore":
            return
        if isinstance(fault, int):
            raise SysfsError(path, fault, "write")
        if fault == "round":
            text = self.rules.lower(path, text)
        self.foreign_write(path, text)

    def foreign_write(self, path: str, text: str) -> None:
        if path not in self.rules.attributes:
            return  # cpusets of the old hierarchy
        try:
            running = self.rules.emc_hz(self.requests) or self.rules.emc_ceiling(self.requests)
            self.force(self.rules.accept(path, text, self.requests, running))
        except OSError as error:
            raise SysfsError(path, error.errno or errno.EIO, "write") from None

    def _fault(self, path: str) -> object:
        for fault in self.faults:
            if fault["path"] == path:
                if fault["times"] is not None:
                    fault["times"] -= 1  # type: ignore[operator]
                    if fault["times"] == 0:
                        self.faults.remove(fault)
                return fault["kind"]
        return None

    def is_writable(self, path: str) -> bool:
        return path in self.rules.attributes


class Disk(StateDir):
    """A state directory that can be killed in the middle of each of its steps, and can be full."""

    def __init__(self, path: Path, kill_switch: KillSwitch) -> None:
        super().__init__(path)
        self.kill_switch = kill_switch
        self.full = False

    def _write(self, handle: int, data: bytes) -> None:
        if self.full:
            os.write(handle, data[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            self.kill_switch.tick()
        except Killed:
            os.write(handle, data[: len(data) // 2])
            raise
        super()._write(handle, data)

    def _flush(self, handle: int) -> None:
        """Nothing to wait for: the machine survives."""

    def _rename(self, beside: Path, target: Path) -> None:
        self.kill_switch.tick()
        super()._rename(beside, target)

    def remove(self, *names: str) -> None:
        self.kill_switch.tick()
        super().remove(*names)


@pytest.fixture(scope="module")
def trees() -> Iterator[Callable[[str], Path]]:
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="powertrain-", dir=memory if memory.is_dir() else None))

    @cache
    def build(name: str) -> Path:
        layout = Layout(devices.get(name))
        tree.build(base / name, layout, KernelRules(layout).attributes)
        return base / name

    yield build
    shutil.rmtree(base)


class RecoveryHarness:
    """A board, the agent on it, and what must be true of the board in the end."""

    def __init__(self, root: Path, name: str, preset: int, policy: CorePolicy, counts: Counter[str]) -> None:
        self.counts = counts
        self.kill_switch = KillSwitch()
        self.kernel = MemoryKernel(root, name, preset, self.kill_switch)
        self.directory = Path(tempfile.mkdtemp(prefix="state-", dir=root.parent))
        self.disk = Disk(self.directory, self.kill_switch)
        self.policy = policy
        self.attributes = controlled(self.discover(), CorePolicy.HOTPLUG)
        self.paths = [attribute.path for attribute in self.attributes]
        self.held_modes: list[PowerMode] = []
        self.sharp = True  # the agent ended its last action by itself, so it knows exactly what it left
        self.allowed = self.values_as_sets()
        self.agent = self.start()
        self.remember()

    def close(self) -> None:
        shutil.rmtree(self.directory)

    def discover(self) -> Board:
        """Discovery sees the same board whenever the same cores are online, and takes long."""
        key = (self.kernel.layout.device.name, self.kernel.visible[f"{CPU}/online"])
        if key not in DISCOVERED:
            DISCOVERED[key] = discover(self.kernel)
        return DISCOVERED[key]

    def start(self) -> Controller:
        store = SnapshotStore(self.disk, self.kernel)
        return Controller(self.kernel, self.discover(), store, self.policy, pause=lambda _: None)

    def values(self) -> dict[str, str]:
        shown_values = self.kernel.visible
        return {a.path: shown_values.get(a.shown_at, shown_values.get(a.path, "")) for a in self.attributes}

    def values_as_sets(self) -> dict[str, set[str]]:
        return {path: {value} for path, value in self.values().items()}

    @property
    def touched(self) -> bool:
        return (self.directory / SNAPSHOT).exists()

    # What the agent does

    def by_agent(self, action: Callable[[], object], kill_at: int | None, looks: bool = True) -> object:
        """Run an action of the agent; a kill makes a new process that knows only what is on the disk."""
        killed = False
        self.kill_switch.left = kill_at
        self.kernel.log.clear()
        if not self.touched:
            self.allowed = self.values_as_sets()
        try:
            result = action()
            self.sharp = self.is_settled()
            return result
        except Killed:
            killed = True
            self.counts["kill"] += 1
            self.sharp = False
            self.agent = self.start()
            return None
        finally:
            self.kill_switch.left = None
            if self.disk.full:  # there was no room to write ahead, and a mode is lowered all the same
                self.allowed = {path: good | {self.values()[path]} for path, good in self.allowed.items()}
            if looks:
                self.remember(killed)

    def remember(self, killed: bool = False) -> None:
        """Note what the agent left: a hand that returns to it can't be seen. (Killed, it may not have looked.)"""
        old_left, old_allowed = (self.left, self.before_others) if killed else ({}, {})
        self.left = {path: {value} | old_left.get(path, set()) for path, value in self.values().items()}
        self.before_others = {path: good | old_allowed.get(path, set()) for path, good in self.allowed.items()}

    def is_settled(self) -> bool:
        data = self.disk.read(SNAPSHOT)
        return data is None or decode(data).phase is Phase.SETTLED

    def apply(self, pick: int, kill_at: int | None) -> None:
        mode = PowerMode(
            *(
                int(axis[pick // divisor % len(axis)])
                for axis, divisor in zip(self.agent.space.axes, (1, 7, 11, 13), strict=True)
            )
        )
        before = list(self.held_modes)
        if self.held_modes:
            self.held_modes = [*self.held_modes, mode]
        try:
            report = self.by_agent(lambda: self.agent.apply(mode), kill_at)
        except ApplyError as error:
            self.counts["apply failed"] += 1
            if "Nothing was written" in str(error):
                assert self.kernel.log == []
            self.held_modes = before
            self.sharp = self.is_settled()
            self.stay_below([*before, mode])
            return
        if report is not None:
            # One that was lowered without a record is forgotten by a process that ends: the recorded one is held again.
            self.held_modes = [*before, mode] if self.disk.full else [mode]
            self.shows(mode)
        self.stay_below([*before, mode])

    def check(self, kill_at: int | None) -> None:
        self.holding(self.agent.check, kill_at)

    def restart(self, kill_at: int | None) -> None:
        """A restart, an upgrade, an absent API server or PowerNode: the job's pod is there, so the mode is held."""
        self.agent = self.start()
        self.holding(self.agent.check, kill_at)

    def holding(self, action: Callable[[], object], kill_at: int | None) -> None:
        if not self.held_modes:
            return
        self.counts["held"] += 1
        report = self.by_agent(action, kill_at)
        self.stay_below(self.held_modes)
        if report is not None and report.ok and report.mode is not None:
            self.held_modes = [report.mode]
            self.shows(report.mode)

    def fan(self, on: bool, kill_at: int | None) -> None:
        if self.disk.full:
            return
        self.by_agent(lambda: self.agent.set_fan_max(on), kill_at, looks=False)

    def restore(self, kill_at: int | None) -> object:
        self.held_modes = []
        return self.by_agent(self.agent.restore, kill_at)

    # What others do

    def by_others(self, action: Callable[[], None]) -> None:
        """Whatever changes by another hand while the agent has a snapshot becomes what must come back."""
        before = self.values()
        action()
        after = self.values()
        changed = {path for path in after if after[path] != before[path]}
        for attribute in self.attributes:
            if not attribute.active(self.online()):  # a cluster that goes offline takes what was set with it
                self.allowed[attribute.path] |= self.before_others[attribute.path]
        for attribute in self.attributes:
            path = attribute.path
            if path not in changed:
                continue
            if attribute.role is Role.EMC_RATE and self.emc_lock() != "1":
                continue
            self.counts["foreign value"] += self.touched
            is_noticed = self.sharp and not self.disk.full and attribute.active(self.online())
            blurred = not is_noticed or self.explained(attribute, after)
            hidden = blurred or after[path] in self.left[path]
            self.allowed[path] = {after[path]} | (self.allowed[path] | self.before_others[path] if hidden else set())
            if attribute.role is Role.EMC_RATE:
                lock = self.kernel.rules.emc_lock
                self.allowed[lock] = {"1"} | (self.allowed[lock] | self.before_others[lock] if hidden else set())

    def explained(self, attribute: object, after: dict[str, str]) -> bool:
        """A minimum equal to the maximum, or a rate under a lowered cap, may be the kernel's doing."""
        group = {a.role: a.path for a in self.attributes if a.group == attribute.group}
        if attribute.role is Role.MIN:
            return after[attribute.path] == after[group[Role.MAX]]
        return attribute.role is Role.EMC_RATE and after[group[Role.EMC_CAP]] != "0"

    def online(self) -> frozenset[int]:
        return frozenset(
            cpu for cpu in range(self.kernel.layout.device.cores) if self.kernel.requests[f"{CPU}/cpu{cpu}/online"]
        )

    def emc_lock(self) -> str:
        return self.kernel.visible[self.kernel.rules.emc_lock]

    def nvpmodel(self, preset: int) -> None:
        chosen = self.kernel.presets[preset % len(self.kernel.presets)]
        self.by_others(lambda: self.kernel.force(self.kernel.rules.preset(chosen)))

    def jetson_clocks(self) -> None:
        rules, requests = self.kernel.rules, self.kernel.requests
        lock = {rules.emc_lock: 1, rules.emc_rate: rules.emc_ceiling(requests)}
        self.by_others(lambda: self.kernel.force(lock))

    def administrator(self, which: int, what: int) -> None:
        attribute = self.attributes[which % len(self.attributes)]
        rule = self.kernel.rules.attributes[attribute.path]
        value = rule.legal[what % len(rule.legal)]

        def act() -> None:
            try:
                self.kernel.foreign_write(attribute.path, str(value))
            except SysfsError:
                self.counts["administrator refused"] += 1

        self.by_others(act)

    def bring_cores_back(self) -> None:
        def act() -> None:
            for cpu in range(1, self.kernel.layout.device.cores):
                self.kernel.foreign_write(f"{CPU}/cpu{cpu}/online", "1")

        self.by_others(act)

    def fault(self, which: int, kind: object, times: int | None) -> None:
        path = self.paths[which % len(self.paths)]
        self.kernel.faults.append({"path": path, "kind": kind, "times": times})

    def fill_disk(self, full: bool) -> None:
        """What others set can't be remembered on a full disk; the job's mode comes first, so it may get lost."""
        self.disk.full = full
        if full:
            self.allowed = {path: good | self.before_others[path] for path, good in self.allowed.items()}

    def reboot(self, preset: int) -> None:
        self.kernel.boot(preset)
        self.held_modes, self.sharp = [], True
        self.allowed = self.values_as_sets()
        self.agent = self.start()
        self.remember()

    # What must be true

    def shows(self, mode: PowerMode) -> None:
        """The board is in the mode, knob by knob."""
        online = frozenset(
            cpu for cpu in self.agent.board.cpu.present if self.kernel.requests[f"{CPU}/cpu{cpu}/online"]
        )
        mine = controlled(self.agent.board, self.policy)
        values = values_for(self.agent.board, mode, mine, {})
        shown_values = self.values()
        for attribute in mine:
            if attribute.active(online) and attribute.role is not Role.EMC_CAP:
                assert shown_values[attribute.path] == values[attribute.path], attribute.path

    def stay_below(self, modes: list[PowerMode]) -> None:
        """While a job held the board, nothing that the agent wrote was above the modes in question."""
        if not self.held_modes:
            return
        top = PowerMode(*(max(getattr(m, k) for m in modes) for k in ("cores", "cpu_khz", "gpu_hz", "emc_hz")))
        limits = values_for(self.agent.board, top, self.attributes, {})
        cores = {f"{CPU}/cpu{cpu}/online" for cpu in cores_of(self.agent.board, top.cores)}
        roles = {a.path: a.role for a in self.attributes}
        for path, text in self.kernel.log:
            role = roles.get(path)
            if role in (Role.MIN, Role.MAX, Role.EMC_RATE):
                assert int(text) <= int(limits[path]), (path, text, limits[path])
            if role is Role.EMC_LOCK:
                assert text == "1", "the memory clock was let go under a job"
            if role is Role.ONLINE and text == "1":
                assert path in cores, f"{path} came online under a job"

    def wrong(self) -> dict[str, tuple[str, set[str]]]:
        """Return the attributes that do not show what they should after a restore."""
        values = self.values()
        wrong = {}
        for attribute in self.attributes:
            path, good = attribute.path, set(self.allowed[attribute.path])
            group = {a.role: a.path for a in self.attributes if a.group == attribute.group}
            if attribute.role is Role.MIN:
                top = int(values[group[Role.MAX]]) or 1 << 40
                good |= {str(min(int(value), top)) for value in good}
            if attribute.role is Role.EMC_RATE:
                cap = int(values[group[Role.EMC_CAP]])
                if self.emc_lock() != "1" or 0 < cap < max(map(int, good)):
                    continue
            if attribute.role is Role.ONLINE and self.policy is CorePolicy.FIXED:
                continue
            if values[path] not in good:
                wrong[path] = (values[path], good)
        return wrong


KILL = st.one_of(st.none(), st.integers(0, 25), st.integers(0, 60))
FAULT = st.sampled_from([errno.EINVAL, errno.EBUSY, errno.EACCES, errno.EIO, "ignore", "round"])
ACTIONS = st.one_of(
    st.tuples(st.just("apply"), st.integers(0, 30_000), KILL),
    st.tuples(st.just("apply"), st.integers(0, 30_000), KILL),
    st.tuples(st.just("check"), KILL),
    st.tuples(st.just("restart"), KILL),
    st.tuples(st.just("restore"), KILL),
    st.tuples(st.just("fan"), st.booleans(), KILL),
    st.tuples(st.just("nvpmodel"), st.integers(0, 8)),
    st.tuples(st.just("jetson_clocks")),
    st.tuples(st.just("administrator"), st.integers(0, 40), st.integers(0, 40)),
    st.tuples(st.just("fault"), st.integers(0, 40), FAULT, st.sampled_from([None, 1, 2, 4])),
    st.tuples(st.just("fault"), st.integers(0, 40), FAULT, st.sampled_from([None, 1, 2, 4])),
    st.tuples(st.just("fault"), st.integers(0, 40), FAULT, st.none()),
    st.tuples(st.just("heal")),
    st.tuples(st.just("disk"), st.booleans()),
    st.tuples(st.just("reboot"), st.integers(0, 8)),
)


def _play(harness: RecoveryHarness, action: tuple) -> None:
    name, *arguments = action
    if name == "heal":
        harness.kernel.faults.clear()
    elif name == "disk":
        harness.fill_disk(arguments[0])
    else:
        getattr(harness, name)(*arguments)


def _end(harness: RecoveryHarness) -> None:
    """The job is gone: start-up restores. First with whatever is still broken, then with everything healed."""
    harness.disk.full = False
    harness.agent = harness.start()
    broken = bool(harness.kernel.faults)
    report = harness.restore(None)
    named = {problem.path for problem in report.problems}
    groups = {problem.group for problem in report.problems}
    for path in harness.wrong():
        attribute = next(a for a in harness.attributes if a.path == path)
        assert path in named or attribute.group in groups or attribute.role is Role.ONLINE, path
    offline = {problem.path for problem in report.problems if problem.why == "its CPUs are offline"}
    assert named == offline or broken, report.problems
    harness.counts["pending"] += not report.ok
    assert report.ok or harness.touched, "what failed must stay pending"
    harness.kernel.faults.clear()
    if offline:
        harness.bring_cores_back()
    harness.agent = harness.start()
    report = harness.restore(None)
    assert report.ok, report.problems
    assert harness.wrong() == {}
    assert not harness.touched
    assert harness.restore(None).ok
    assert harness.kernel.log == [], "a second restore has nothing to do"


def test_every_history_ends_with_the_board_as_it_was_found(trees: Callable[[str], Path]) -> None:
    counts: Counter[str] = Counter()

    @settings(
        max_examples=HISTORIES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(
        name=st.sampled_from(BOARDS),
        preset=st.integers(0, 8),
        policy=st.sampled_from(list(CorePolicy)),
        first=st.integers(0, 30_000),
        history=st.lists(ACTIONS, min_size=3, max_size=9),
    )
    def play(name: str, preset: int, policy: CorePolicy, first: int, history: list[tuple]) -> None:
        harness = RecoveryHarness(trees(name), name, preset, policy, counts)
        try:
            for action in [("apply", first, None), *history]:
                _play(harness, action)
            _end(harness)
        finally:
            harness.close()
        counts["history"] += 1

    play()
    assert counts["history"] >= 350
    for what in ("kill", "apply failed", "foreign value", "pending", "held"):
        assert counts[what] >= 10, f"the histories hold too little: {dict(counts)}"


@pytest.mark.parametrize(
    ("name", "policy"),
    [("orin-nano", CorePolicy.HOTPLUG), ("tx2-nx", CorePolicy.HOTPLUG), ("nano", CorePolicy.FIXED)],
)
def test_a_kill_at_every_single_write_is_repaired(trees: Callable[[str], Path], name: str, policy: CorePolicy) -> None:
    operations = [("apply", 3), ("apply", 20_011), ("nvpmodel", 1), ("check",), ("restore",)]
    kills = 0
    for stage in (0, 1, 3, 4):
        for n in range(500):
            counts: Counter[str] = Counter()
            harness = RecoveryHarness(trees(name), name, 0, policy, counts)
            try:
                for index, step in enumerate(operations[: stage + 1]):
                    at = (n if index == stage else None,) if step[0] != "nvpmodel" else ()
                    _play(harness, (*step, *at))
                if counts["kill"] and stage in (1, 3):
                    harness.restart(None)
                _end(harness)
            finally:
                harness.close()
            kills += counts["kill"]
            if not counts["kill"]:
                break
    assert kills > 60
