"""Whatever a real board does wrong can be asked of the simulated one, and ends when it is cleared."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from powertrain import PowerMode
from powertrain_agent.simulate import Fault, FaultKind, ManualClock, SimulatedBoard
from powertrain_agent.sysfs import SysfsError, SysfsTimeoutError

CPU = "/sys/devices/system/cpu"
GPU = "/sys/class/devfreq/17000000.ga10b"
ORIN_EMC = "/sys/kernel/debug/bpmp/debug/clk/emc"
MAXN = PowerMode(12, 2201600, 1300500000, 3199000000)

BoardFactory = Callable[..., SimulatedBoard]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EBUSY, errno.EACCES, errno.EIO, errno.EROFS])
def test_a_failing_write_ends_in_the_asked_errno_as_often_as_asked(board: BoardFactory, code: int) -> None:
    simulated = board()
    simulated.inject(Fault(FaultKind.FAIL_WRITE, "max_freq", errno=code, times=1))
    with pytest.raises(SysfsError) as caught:
        simulated.sysfs.write(f"{GPU}/max_freq", "624750000")
    assert caught.value.errno == code
    simulated.sysfs.write(f"{GPU}/max_freq", "624750000")
    assert simulated.sysfs.read(f"{GPU}/max_freq") == "624750000"


def test_an_ignored_write_changes_nothing(board: BoardFactory) -> None:
    simulated = board()
    simulated.inject(Fault(FaultKind.IGNORE_WRITE, "*/devfreq/*/max_freq"))
    simulated.sysfs.write(f"{GPU}/max_freq", "624750000")
    assert simulated.sysfs.read(f"{GPU}/max_freq") == "1300500000"


def test_a_rounded_write_lands_one_step_lower(board: BoardFactory) -> None:
    simulated = board()
    simulated.inject(Fault(FaultKind.ROUND_WRITE, "max_freq"))
    simulated.sysfs.write(f"{GPU}/max_freq", "624750000")
    assert simulated.sysfs.read(f"{GPU}/max_freq") == "522750000"


def test_a_vanished_sensor_is_neither_listed_nor_readable_until_it_returns(board: BoardFactory) -> None:
    simulated = board()
    rail = simulated.sysfs.layout.rails[0]
    folder, name = rail.current.rsplit("/", 1)
    simulated.inject(Fault(FaultKind.VANISH, f"{folder}/*"))
    assert not simulated.sysfs.exists(rail.current)
    assert name not in simulated.sysfs.list(folder)
    with pytest.raises(SysfsError, match="ENOENT"):
        simulated.sysfs.read(rail.current)
    simulated.clear(FaultKind.VANISH)
    assert name in simulated.sysfs.list(folder)


def test_a_stuck_file_ends_in_a_timeout_and_others_still_answer(board: BoardFactory) -> None:
    simulated = board(timeout_s=0.05)
    simulated.inject(Fault(FaultKind.STUCK, f"{CPU}/cpufreq/policy4/scaling_max_freq"))
    with pytest.raises(SysfsTimeoutError):
        simulated.sysfs.read(f"{CPU}/cpufreq/policy4/scaling_max_freq")
    assert simulated.sysfs.read(f"{CPU}/online") == "0-11"
    simulated.clear()


def test_faults_outlive_the_process_that_asked_for_them(board: BoardFactory, clock: ManualClock) -> None:
    simulated = board()
    simulated.inject(Fault(FaultKind.IGNORE_WRITE, "max_freq"))
    again = SimulatedBoard.open(simulated.root, now=clock, timeout_s=None)
    again.sysfs.write(f"{GPU}/max_freq", "624750000")
    assert again.sysfs.read(f"{GPU}/max_freq") == "1300500000"


def test_nvpmodel_resets_cores_limits_and_cap_behind_everybodys_back(board: BoardFactory) -> None:
    simulated = board(preset=2)
    sysfs = simulated.sysfs
    for path, text in ((f"{GPU}/max_freq", "216750000"), (f"{GPU}/min_freq", "216750000"), (f"{CPU}/cpu3/online", "0")):
        sysfs.write(path, text)
    simulated.nvpmodel()
    assert sysfs.read(f"{GPU}/max_freq") == "624750000"
    assert sysfs.read(f"{CPU}/online") == "0-7"
    simulated.nvpmodel(preset=1)
    assert sysfs.read("/var/lib/nvpmodel/status") == "pmode:0001"
    assert sysfs.read(simulated.sysfs.layout.emc_cap) == "2133000000"


def test_jetson_clocks_pins_every_clock_to_its_maximum(board: BoardFactory) -> None:
    simulated = board()
    simulated.jetson_clocks()
    assert simulated.mode() == MAXN
    assert simulated.sysfs.read(f"{ORIN_EMC}/mrq_rate_locked") == "1"


def test_a_reboot_brings_the_preset_back_with_a_new_boot_id_and_no_pods(board: BoardFactory) -> None:
    simulated = board()
    first = simulated.sysfs.read("/proc/sys/kernel/random/boot_id")
    pod = simulated.add_pod("0b1c")
    simulated.load("resnet18")
    simulated.sysfs.write(f"{GPU}/max_freq", "216750000")
    simulated.reboot()
    assert simulated.sysfs.read("/proc/sys/kernel/random/boot_id") != first
    assert simulated.sysfs.read(f"{GPU}/max_freq") == "1300500000"
    assert not pod.exists()
    assert not simulated.sysfs.instant().busy


def test_a_clock_that_was_not_applied_shows_in_the_measured_clock_only(board: BoardFactory) -> None:
    simulated = board()
    simulated.load("resnet18")
    simulated.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "gpu", value=-1))
    assert simulated.sysfs.read(f"{GPU}/max_freq") == "1300500000"
    assert simulated.sysfs.read(f"{GPU}/cur_freq") == "1236750000"


def test_throttling_lowers_the_real_clock_and_raises_the_cooling_state(board: BoardFactory) -> None:
    simulated = board()
    simulated.load("resnet18")
    simulated.inject(Fault(FaultKind.THROTTLE, "cpu", value=0.5))
    assert int(simulated.sysfs.read(f"{CPU}/cpufreq/policy0/cpuinfo_cur_freq")) < 0.6 * 2201600
    assert simulated.sysfs.read("/sys/class/thermal/cooling_device0/cur_state") == "1"


def test_over_current_events_are_counted_once_or_steadily(board: BoardFactory, clock: ManualClock) -> None:
    simulated = board()
    counter = f"{simulated.sysfs.layout.over_current}/oc3_event_cnt"
    simulated.over_current(events=2)
    assert simulated.sysfs.read(counter) == "2"
    simulated.inject(Fault(FaultKind.OVER_CURRENT, value=3.0))
    clock.advance(2.0)
    assert simulated.sysfs.read(counter) == "8"


def test_drift_and_contention_lengthen_steps(board: BoardFactory, clock: ManualClock) -> None:
    simulated = board()
    simulated.load("resnet18")
    step_s = simulated.step_s()
    simulated.inject(Fault(FaultKind.DRIFT, value=1.2))
    clock.advance(600.0)
    assert simulated.step_s() == pytest.approx(1.2 * step_s)
    simulated.clear()
    simulated.inject(Fault(FaultKind.CONTENTION, value=4.0))
    assert simulated.step_s() > 1.05 * step_s


def test_a_power_offset_is_on_top_of_what_the_sensors_add_up_to(board: BoardFactory, clock: ManualClock) -> None:
    simulated = board()
    before_w = simulated.sysfs.instant().measured_w
    simulated.inject(Fault(FaultKind.POWER_OFFSET, value=3.0))
    assert simulated.sysfs.instant().measured_w == pytest.approx(before_w + 3.0)


def test_a_board_that_only_descends_ignores_a_rise_until_it_reboots(board: BoardFactory) -> None:
    simulated = board()
    simulated.inject(Fault(FaultKind.DESCENDING_ONLY))
    for hz in ("216750000", "1300500000"):
        simulated.sysfs.write(f"{GPU}/max_freq", hz)
    assert simulated.sysfs.read(f"{GPU}/max_freq") == "216750000"
    simulated.reboot()
    assert simulated.sysfs.read(f"{GPU}/max_freq") == "1300500000"


def test_a_hook_can_kill_the_process_before_or_after_any_write(board: BoardFactory) -> None:
    class Killed(BaseException):
        pass

    def kill(path: str, text: str) -> None:
        raise Killed(path)

    sysfs = board(timeout_s=5.0).sysfs
    sysfs.before_write = kill
    with pytest.raises(Killed):
        sysfs.write(f"{GPU}/max_freq", "216750000")
    assert sysfs.read(f"{GPU}/max_freq") == "1300500000"
    sysfs.before_write, sysfs.after_write = None, kill
    with pytest.raises(Killed):
        sysfs.write(f"{GPU}/max_freq", "216750000")
    assert sysfs.read(f"{GPU}/max_freq") == "216750000"
