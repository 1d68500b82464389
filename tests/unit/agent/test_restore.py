"""Restoring: idempotent, verified, without discovery, by script, after real kills; never against a fresh boot."""

import errno
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from powertrain_agent.control.controller import ApplyError, Controller
from powertrain_agent.control.snapshot import SCRIPT, SNAPSHOT, SnapshotCorruptError, SnapshotStore, decode, encode
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware.board import CorePolicy, discover
from powertrain_agent.simulate import SimulatedBoard
from powertrain_agent.simulate.faults import Fault, FaultKind


def _controller(simulated, state: Path, policy: CorePolicy = CorePolicy.FIXED) -> Controller:
    store = SnapshotStore(StateDir(state), simulated.sysfs)
    return Controller(simulated.sysfs, discover(simulated.sysfs), store, policy, pause=lambda _: None)


def _shown_values(simulated) -> dict[str, str]:
    rules = simulated.sysfs.rules
    values = rules.visible(simulated.sysfs.state().requests)
    unlocked = values[rules.emc_lock] == "0"
    return {path: values[path] for path in rules.attributes if not (unlocked and path == rules.emc_rate)}


def test_a_second_restore_writes_nothing(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path, CorePolicy.HOTPLUG)
    controller.apply(controller.space[0])
    assert controller.restore().ok
    writes: list[str] = []
    simulated.sysfs.before_write = lambda path, text: writes.append(path)
    assert controller.restore().ok
    assert writes == []


def test_a_reboot_makes_the_snapshot_void(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    simulated.reboot()
    writes: list[str] = []
    simulated.sysfs.before_write = lambda path, text: writes.append(path)
    controller = _controller(simulated, tmp_path)
    assert controller.check().mode is None
    assert controller.restore().ok
    assert writes == []
    assert not (tmp_path / SNAPSHOT).exists()


@pytest.mark.parametrize(
    "damage", [lambda d: d[: len(d.rstrip()) // 2], lambda d: d.replace(b"2201600", b"1190400"), lambda d: b""]
)
def test_a_damaged_snapshot_means_hands_off(board, tmp_path: Path, damage) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    snapshot = tmp_path / SNAPSHOT
    snapshot.write_bytes(damage(snapshot.read_bytes()))
    writes: list[str] = []
    simulated.sysfs.before_write = lambda path, text: writes.append(path)
    for action in (controller.restore, controller.check):
        with pytest.raises(SnapshotCorruptError, match="damaged"):
            action()
    with pytest.raises(ApplyError, match="damaged"):
        controller.apply(controller.space[1])
    assert writes == []


def test_a_snapshot_is_decoded_once_and_again_when_its_file_is_another(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    snapshots = [controller.store.load() for _ in range(3)]
    assert snapshots[0] is snapshots[1] is snapshots[2]
    others = _controller(simulated, tmp_path)
    others.apply(others.space[1])
    snapshot = controller.store.load()
    assert snapshot is not None
    assert snapshot.mode == others.space[1]
    (tmp_path / SNAPSHOT).unlink()
    assert controller.store.load() is None


def test_snapshot_survives_its_file_form(board, tmp_path: Path) -> None:
    controller = _controller(board("xavier-agx"), tmp_path, CorePolicy.HOTPLUG)
    controller.apply(controller.space[5])
    snapshot = controller.store.load()
    assert snapshot is not None
    assert decode(encode(snapshot)) == snapshot
    assert any(path.endswith("scaling_governor") for path in snapshot.recorded)
    assert any("cpuidle" in path for path in snapshot.recorded)


def test_a_failing_file_is_named_and_tried_again(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    original = _shown_values(simulated)
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    bad = "/sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq"
    simulated.inject(Fault(FaultKind.FAIL_WRITE, bad, errno=errno.EIO))
    for _ in range(2):
        report = _controller(simulated, tmp_path).restore()
        assert bad in {problem.path for problem in report.problems}
        assert "refused with EIO" in str(report.problems[-1])
        wrong = {path for path, text in _shown_values(simulated).items() if text != original.get(path)}
        assert wrong <= {bad, bad.replace("max", "min")}
    simulated.clear()
    assert _controller(simulated, tmp_path).restore().ok
    assert _shown_values(simulated) == original


def test_a_board_that_only_goes_down_keeps_the_rest_pending_until_it_reboots(board, tmp_path: Path) -> None:
    simulated = board("orin-nano")
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    simulated.inject(Fault(FaultKind.DESCENDING_ONLY))
    report = controller.restore()
    assert {problem.why for problem in report.problems} >= {"ignored"}
    simulated.clear()
    simulated.reboot()
    assert _controller(simulated, tmp_path).restore().ok


def test_limits_of_a_cluster_that_somebody_switched_off_stay_pending(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    original = _shown_values(simulated)
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    for cpu in (8, 9, 10, 11):
        simulated.sysfs.write(f"/sys/devices/system/cpu/cpu{cpu}/online", "0")
    report = controller.restore()
    assert {problem.why for problem in report.problems} == {"its CPUs are offline"}
    for cpu in (8, 9, 10, 11):
        simulated.sysfs.write(f"/sys/devices/system/cpu/cpu{cpu}/online", "1")
    assert controller.restore().ok
    assert _shown_values(simulated) == original


# Without the agent


def _files(simulated) -> dict[str, str]:
    return {path: (simulated.root / path.lstrip("/")).read_text().strip() for path in _shown_values(simulated)}


def _run_script(state: Path, root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(state / SCRIPT), str(root)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("policy", CorePolicy)
@pytest.mark.parametrize("name", ["orin-agx", "orin-nx-16", "xavier-agx", "nano"])
def test_the_script_restores_without_the_agent(board, tmp_path: Path, name: str, policy: CorePolicy) -> None:
    simulated = board(name)
    original = _files(simulated)
    controller = _controller(simulated, tmp_path, policy)
    controller.apply(controller.space[0])
    controller.set_fan_max(True)
    simulated.sysfs.refresh()
    assert _files(simulated) != original
    result = _run_script(tmp_path, simulated.root)
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "restored", "")
    after = _files(simulated)
    assert {path: after[path] for path in original} == original
    assert not (tmp_path / SNAPSHOT).exists()
    assert _run_script(tmp_path, simulated.root).stdout.startswith("nothing to restore")


def test_the_script_writes_in_the_agents_order(board, tmp_path: Path) -> None:
    controller = _controller(board("xavier-agx"), tmp_path, CorePolicy.HOTPLUG)
    controller.apply(controller.space[0])
    lines = [line for line in (tmp_path / SCRIPT).read_text().splitlines() if line.startswith(("put /", "check /"))]
    kinds = [line.split()[0] + ("emc" if "emc" in line else line.split()[1].rsplit("/", 1)[-1]) for line in lines]
    assert list(dict.fromkeys(kinds))[:6] == [
        "putonline", "putscaling_min_freq", "putscaling_max_freq", "putmin_freq", "putmax_freq", "putemc",
    ]  # fmt: skip
    assert kinds.index("checkonline") > kinds.index("putemc")
    assert not any("cpu0/online" in line or "governor" in line or "cpuidle" in line for line in lines)


def test_the_script_and_the_agent_write_the_same_values_in_the_same_order(board, tmp_path: Path) -> None:
    simulated = board("xavier-agx")
    simulated.sysfs.write("/sys/devices/system/cpu/cpu7/online", "0")
    controller = _controller(simulated, tmp_path, CorePolicy.HOTPLUG)
    controller.apply(controller.space[len(controller.space) - 1])
    controller.set_fan_max(True)
    lines = [shlex.split(line) for line in (tmp_path / SCRIPT).read_text().splitlines() if line.startswith("put /")]
    by_agent: list[tuple[str, str]] = []
    simulated.sysfs.after_write = lambda path, text: by_agent.append((path, text))
    assert controller.restore().ok

    def without_waking(writes: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Leave out cores that come online: the script can't know which of them are, so it wakes all."""
        return [(path, text) for path, text in writes if not (path.endswith("/online") and text == "1")]

    by_script = [(simulated.sysfs.resolve(path), text) for _, path, text in lines]
    assert without_waking(by_script) == without_waking(by_agent)
    offline, fan = "/sys/devices/system/cpu/cpu7/online", simulated.sysfs.resolve(simulated.sysfs.layout.fan_pwm)
    assert by_agent.index((offline, "0")) < [path for path, _ in by_agent].index(fan)


def test_the_script_names_what_it_can_not_restore(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    missing_file = simulated.root / "sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq"
    missing_file.unlink()
    result = _run_script(tmp_path, simulated.root)
    assert result.returncode == 1
    assert "NOT restored: /sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq" in result.stderr
    assert (tmp_path / SNAPSHOT).exists()


def test_the_script_leaves_another_boot_alone(board, tmp_path: Path) -> None:
    simulated = board("orin-agx")
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    simulated.reboot()
    after = _files(simulated)
    assert "rebooted since" in _run_script(tmp_path, simulated.root).stdout
    assert _files(simulated) == after


def test_the_agent_takes_over_from_the_script(board, tmp_path: Path) -> None:
    """What the script wrote is what the agent finds: nothing is left to do."""
    simulated = board("orin-agx")
    original = _shown_values(simulated)
    controller = _controller(simulated, tmp_path)
    controller.apply(controller.space[0])
    simulated.sysfs.refresh()
    _run_script(tmp_path, simulated.root)
    simulated.refresh()
    assert _controller(simulated, tmp_path).restore().ok
    assert {p: t for p, t in _shown_values(simulated).items() if "emc" not in p} == {
        p: t for p, t in original.items() if "emc" not in p
    }


# Real kills

VICTIM = """
import os, signal, sys
from pathlib import Path
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.snapshot import SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware.board import CorePolicy, discover
from powertrain_agent.simulate import SimulatedBoard

root, state, at = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
sysfs = SimulatedBoard.open(root, timeout_s=None).sysfs
count = 0

def tick(*_):
    global count
    count += 1
    if count == at:
        os.kill(os.getpid(), signal.SIGKILL)

class Disk(StateDir):
    def _write(self, handle, data):
        os.write(handle, data[: len(data) // 2])
        tick()
        os.lseek(handle, 0, 0)
        super()._write(handle, data)

sysfs.before_write = tick
controller = Controller(sysfs, discover(sysfs), SnapshotStore(Disk(state), sysfs), CorePolicy.HOTPLUG)
controller.apply(controller.space[0])
controller.apply(controller.space[len(controller.space) // 2])
controller.restore()
"""


@pytest.mark.parametrize("at", [1, 2, 7, 16, 29, 40, 47])
def test_a_real_kill_is_repaired_by_the_next_process(board, tmp_path: Path, at: int) -> None:
    simulated = board("orin-nano")
    original = _shown_values(simulated)
    command = [sys.executable, "-c", VICTIM, str(simulated.root), str(tmp_path), str(at)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert result.returncode == -signal.SIGKILL, result.stderr
    reopened = SimulatedBoard.open(simulated.root, timeout_s=None)
    assert _controller(reopened, tmp_path, CorePolicy.HOTPLUG).restore().ok
    assert _shown_values(reopened) == original
    assert not (tmp_path / SNAPSHOT).exists()
