"""Applying a mode: written ahead, in order, read back, corrected or rolled back; and kept against other hands."""

import ast
import errno
import os
from pathlib import Path

import pytest

import powertrain_agent.control
import powertrain_agent.hardware
from powertrain import ModeError, PowerMode
from powertrain_agent.control.clocks import off_clock
from powertrain_agent.control.controller import ApplyError, Controller
from powertrain_agent.control.snapshot import SNAPSHOT, Phase, SnapshotStore, decode
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware.board import CorePolicy, discover
from powertrain_agent.simulate.faults import Fault, FaultKind

BOARDS = ["orin-agx", "orin-agx-11", "orin-nx-16", "xavier-agx", "nano", "tx2-nx"]
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9


def _controller(simulated, state: Path, policy: CorePolicy = CorePolicy.FIXED, directory=StateDir) -> Controller:
    store = SnapshotStore(directory(state), simulated.sysfs)
    return Controller(simulated.sysfs, discover(simulated.sysfs), store, policy, pause=lambda _: None)


def _mode(controller: Controller, share: float) -> PowerMode:
    return PowerMode(*(int(axis[int(share * (len(axis) - 1))]) for axis in controller.space.axes))


def _shown_values(simulated) -> dict[str, str]:
    rules = simulated.sysfs.rules
    values = rules.visible(simulated.sysfs.state().requests)
    unlocked = values[rules.emc_lock] == "0"
    return {path: values[path] for path in rules.attributes if not (unlocked and path == rules.emc_rate)}


@pytest.mark.parametrize("policy", CorePolicy)
@pytest.mark.parametrize("name", BOARDS)
def test_modes_are_applied_and_what_was_found_comes_back(board, tmp_path: Path, name: str, policy: CorePolicy) -> None:
    simulated = board(name)
    before = _shown_values(simulated)
    controller = _controller(simulated, tmp_path, policy)
    for share in (LOW, HIGH, MIDDLE):
        mode = _mode(controller, share)
        report = controller.apply(mode)
        assert (report.mode, report.problems, report.corrected, report.foreign) == (mode, (), (), ())
        simulated.load("resnet18")
        assert simulated.mode() == mode
        assert controller.check().corrected == ()
    assert controller.restore().ok
    assert _shown_values(simulated) == before


def test_the_snapshot_is_on_the_disk_before_the_first_write(board, tmp_path: Path) -> None:
    simulated = board("orin-nano")
    synced: list[str] = []

    class Watched(StateDir):
        def _flush(self, handle: int) -> None:
            synced.append(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115
            super()._flush(handle)

    checks: list[bool] = []

    def before_write(path: str, text: str) -> None:
        entries = decode((tmp_path / SNAPSHOT).read_bytes())
        entry_of = {entry.attribute.path: entry for entry in entries.entries}
        checks.append(text in entry_of[path].ours or text == entry_of[path].attribute.lowest)

    simulated.sysfs.before_write = before_write
    controller = _controller(simulated, tmp_path, directory=Watched)
    controller.apply(_mode(controller, LOW))
    assert checks
    assert all(checks), "a value was written that the snapshot did not announce"
    assert any(SNAPSHOT in name for name in synced)


def test_a_full_disk_means_that_nothing_is_written(board, tmp_path: Path) -> None:
    simulated = board("orin-nano")

    class Full(StateDir):
        def _write(self, handle: int, data: bytes) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writes: list[str] = []
    simulated.sysfs.before_write = lambda path, text: writes.append(path)
    controller = _controller(simulated, tmp_path, directory=Full)
    with pytest.raises(ApplyError, match=r"No space left on device.*Nothing was written"):
        controller.apply(_mode(controller, LOW))
    assert writes == []
    assert controller.restore().ok


def test_a_mode_that_the_board_lacks_is_refused_with_the_legal_values(board, tmp_path: Path) -> None:
    controller = _controller(board("orin-nano"), tmp_path)
    with pytest.raises(ModeError, match="gpu_hz 1 not available; legal"):
        controller.apply(PowerMode(6, 115200, 1, 204000000))


@pytest.mark.parametrize("name", ["orin-agx", "xavier-agx"])
def test_writes_go_up_first_and_down_last(board, tmp_path: Path, name: str) -> None:
    simulated = board(name)
    controller = _controller(simulated, tmp_path, CorePolicy.HOTPLUG)
    controller.apply(_mode(controller, MIDDLE))
    kinds: list[str] = []

    def note(path: str, text: str) -> None:
        kind = Path(path).name + (text if path.endswith("/online") else "")
        if "cgroup" not in path:
            kinds.append("emc" if "emc" in path else "gpu" if "devfreq" in path else kind)

    simulated.sysfs.before_write = note
    controller.apply(_mode(controller, HIGH))
    up = list(dict.fromkeys(kinds))
    assert up == ["online1", "scaling_min_freq", "scaling_max_freq", "gpu", "emc"]
    first = kinds.index("scaling_min_freq")
    assert kinds[first : first + 3] == ["scaling_min_freq", "scaling_max_freq", "scaling_min_freq"]
    kinds.clear()
    controller.apply(_mode(controller, LOW))
    assert list(dict.fromkeys(kinds))[-1] == "online0"


BAD_WRITES = [
    (Fault(FaultKind.FAIL_WRITE, "*/scaling_max_freq", errno=errno.EINVAL), "refused with EINVAL"),
    (Fault(FaultKind.FAIL_WRITE, "*/min_freq", errno=errno.EBUSY), "refused with EBUSY"),
    (Fault(FaultKind.FAIL_WRITE, "*/clk/emc/rate", errno=errno.EACCES), "refused with EACCES"),
    (Fault(FaultKind.FAIL_WRITE, "*/devfreq/*/max_freq", errno=errno.EIO), "refused with EIO"),
    (Fault(FaultKind.IGNORE_WRITE, "*/clk/emc/rate"), "ignored"),
    (Fault(FaultKind.ROUND_WRITE, "*/policy4/scaling_max_freq"), "rounded"),
]


@pytest.mark.parametrize(("fault", "why"), BAD_WRITES, ids=[f"{fault.kind}-{why}" for fault, why in BAD_WRITES])
def test_a_bad_write_is_named_and_rolled_back(board, tmp_path: Path, fault: Fault, why: str) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    simulated.inject(fault)
    with pytest.raises(ApplyError) as caught:
        controller.apply(_mode(controller, LOW))
    assert any(why in str(problem) or problem.why == "ignored" for problem in caught.value.problems)
    assert all(problem.path in str(caught.value) for problem in caught.value.problems)
    simulated.clear()
    assert controller.restore().ok
    assert not (tmp_path / SNAPSHOT).exists()


@pytest.mark.parametrize(
    "fault", [fault for fault, _ in BAD_WRITES], ids=[str(fault.kind) + fault.target for fault, _ in BAD_WRITES]
)
def test_a_passing_fault_is_corrected(board, tmp_path: Path, fault: Fault) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    simulated.inject(Fault(fault.kind, fault.target, errno=fault.errno, times=1))
    report = controller.apply(_mode(controller, MIDDLE))
    assert report.ok
    simulated.load("resnet18")
    assert simulated.mode() == report.mode


def test_a_failing_mode_gives_way_to_the_one_before(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    before = _mode(controller, LOW)
    controller.apply(before)
    values = _shown_values(simulated)
    simulated.inject(Fault(FaultKind.IGNORE_WRITE, "*/devfreq/*/max_freq"))
    with pytest.raises(ApplyError, match=f"The mode before, {before}, is back"):
        controller.apply(_mode(controller, HIGH))
    assert _shown_values(simulated) == values
    snapshot = decode((tmp_path / SNAPSHOT).read_bytes())
    assert (snapshot.phase, snapshot.mode) == (Phase.SETTLED, before)


def test_what_can_not_be_read_can_not_be_promised_back(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    simulated.inject(Fault(FaultKind.FAIL_READ, "*/policy4/scaling_min_freq"))
    writes: list[str] = []
    simulated.sysfs.before_write = lambda path, text: writes.append(path)
    with pytest.raises(ApplyError, match="policy4/scaling_min_freq"):
        controller.apply(_mode(controller, LOW))
    assert writes == []


@pytest.mark.parametrize("name", ["orin-agx", "orin-agx-11", "orin-nx-16", "xavier-agx", "nano", "tx2"])
def test_a_foreign_change_is_re_applied_and_restored_in_the_end(board, tmp_path: Path, name: str) -> None:
    simulated = board(name)
    controller = _controller(simulated, tmp_path)
    mode = _mode(controller, LOW)
    controller.apply(mode)
    preset = simulated.device.presets[-1]
    simulated.nvpmodel(preset.id)
    set_by_others = {path: _shown_values(simulated)[path] for path in simulated.sysfs.rules.preset(preset)}
    report = controller.check()
    assert report.ok
    assert {problem.why for problem in report.corrected} == {"changed by someone else"}
    assert {change.value for change in report.foreign} <= set(set_by_others.values())
    simulated.load("resnet18")
    running = simulated.mode()
    assert (running.cpu_khz, running.gpu_hz, running.emc_hz) == (mode.cpu_khz, mode.gpu_hz, mode.emc_hz)
    assert {problem.why for problem in controller.restore().problems} <= {"its CPUs are offline"}
    online = set(simulated.sysfs.rules.online(simulated.sysfs.state().requests))
    offline = [path for path, cpus in simulated.sysfs.layout.policies.items() if not online & set(cpus)]
    values = _shown_values(simulated)
    wrong = {path: (values[path], text) for path, text in set_by_others.items() if values[path] != text}
    assert [path for path in wrong if not path.startswith(tuple(offline))] == []
    assert simulated.sysfs.read(simulated.sysfs.rules.emc_lock) == "0"


def test_somebody_who_locks_the_memory_clock_gets_his_lock_back(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    controller.apply(_mode(controller, LOW))
    simulated.jetson_clocks()
    assert controller.check().ok
    assert controller.restore().ok
    lock = "/sys/kernel/debug/bpmp/debug/clk/emc"
    assert simulated.sysfs.read(f"{lock}/mrq_rate_locked") == "1"
    assert simulated.sysfs.read(f"{lock}/rate") == "3199000000"


def test_a_maximum_lowered_by_somebody_else_does_not_pin_the_minimum(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    controller.apply(_mode(controller, HIGH))
    policy = "/sys/devices/system/cpu/cpufreq/policy0"
    simulated.sysfs.write(f"{policy}/scaling_max_freq", "1190400")
    assert simulated.sysfs.read(f"{policy}/scaling_min_freq") == "1190400"
    assert controller.check().ok
    assert controller.restore().ok
    assert simulated.sysfs.read(f"{policy}/scaling_max_freq") == "1190400"
    assert simulated.sysfs.read(f"{policy}/scaling_min_freq") == "729600"


def test_a_cluster_that_somebody_brings_online_gets_the_jobs_clock(board, tmp_path: Path) -> None:
    simulated = board("orin-agx-11", preset=2)
    controller = _controller(simulated, tmp_path)
    mode = _mode(controller, LOW)
    controller.apply(mode)
    simulated.nvpmodel(0)
    report = controller.check()
    assert report.ok
    assert simulated.sysfs.read("/sys/devices/system/cpu/cpufreq/policy8/scaling_max_freq") == str(mode.cpu_khz)
    assert controller.restore().ok
    assert simulated.sysfs.read("/sys/devices/system/cpu/cpufreq/policy8/scaling_max_freq") == "2201600"


class Stop(BaseException):
    pass


def test_a_restart_in_the_middle_of_a_change_holds_the_lower_mode(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    low, high = _mode(controller, LOW), _mode(controller, HIGH)
    a = PowerMode(low.cores, low.cpu_khz, high.gpu_hz, high.emc_hz)
    b = PowerMode(low.cores, high.cpu_khz, low.gpu_hz, high.emc_hz)
    controller.apply(a)

    def stop(path: str, text: str) -> None:
        if "devfreq" in path:
            raise Stop

    simulated.sysfs.before_write = stop
    with pytest.raises(Stop):
        controller.apply(b)
    simulated.sysfs.before_write = None
    report = _controller(simulated, tmp_path).resume()
    assert report.ok
    assert report.mode == PowerMode(low.cores, low.cpu_khz, low.gpu_hz, high.emc_hz)


def test_measured_clocks_are_compared_with_tolerance(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    mode = _mode(controller, MIDDLE)
    controller.apply(mode)
    simulated.load("resnet18")
    assert off_clock(simulated.sysfs, controller.board, mode) == {}
    assert off_clock(simulated.sysfs, controller.board, mode, tolerance=0.001) != {}
    simulated.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "gpu", value=-2))
    assert [path.rsplit("/", 1)[-1] for path in off_clock(simulated.sysfs, controller.board, mode)] == ["cur_freq"]
    simulated.unload()
    assert off_clock(simulated.sysfs, controller.board, mode) == {}, "an idle GPU parks its clock"


@pytest.mark.parametrize("name", BOARDS)
def test_only_control_attributes_are_ever_written(board, tmp_path: Path, name: str) -> None:
    simulated = board(name)
    written: set[str] = set()
    simulated.sysfs.before_write = lambda path, text: written.add(path)
    controller = _controller(simulated, tmp_path, CorePolicy.HOTPLUG)
    for share in (LOW, HIGH):
        controller.apply(_mode(controller, share))
    controller.set_fan_max(True)
    simulated.nvpmodel()
    controller.check()
    controller.restore()
    forbidden = ("governor", "cpuidle", "cpu0/online", "railgate", "power/control", "tpc_pg_mask", "nvpmodel/status")
    assert written
    assert not [path for path in written if any(word in path for word in forbidden)]


def test_control_code_starts_no_program() -> None:
    packages = (powertrain_agent.control, powertrain_agent.hardware)
    files = [file for package in packages for file in Path(package.__file__).parent.glob("*.py")]
    imported: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                assert node.attr not in {"system", "popen", "fork", "execv", "posix_spawn", "kill"}, file
    assert len(files) > 15
    assert imported.isdisjoint({"subprocess", "multiprocessing", "ctypes", "pty"})
