"""The simulated kernel answers writes as Jetson kernels do: order, rounding, hotplug, memory locks, outside writers."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from powertrain_agent.simulate import SimulatedBoard, SimulatedSysfs
from powertrain_agent.simulate.tree import default_preset
from powertrain_agent.sysfs import SysfsError

CPU = "/sys/devices/system/cpu"
POLICY = f"{CPU}/cpufreq/policy0"
QOS, STRICT = "orin-agx", "xavier-agx"
ORIN_EMC = "/sys/kernel/debug/bpmp/debug/clk/emc"
BOARDS = ("nano", "orin-agx", "orin-agx-11", "orin-nano", "orin-nx-16", "tx2-nx", "xavier-agx", "xavier-nx")

BoardFactory = Callable[..., SimulatedBoard]
TreeFactory = Callable[..., SimulatedSysfs]


def refused(sysfs: SimulatedSysfs, path: str, text: str) -> int:
    with pytest.raises(SysfsError) as caught:
        sysfs.write(path, text)
    return caught.value.errno


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_boots_with_its_tables_all_cores_and_readable_sensors(tree: TreeFactory, name: str) -> None:
    sysfs = tree(name)
    device = sysfs.layout.device
    gpu = f"/sys/class/devfreq/{device.tree.gpu_class}"

    assert sysfs.read("/proc/device-tree/model") == device.tree.model
    assert [int(hz) for hz in sysfs.read(f"{gpu}/available_frequencies").split()] == list(device.tables.gpu_hz.values)
    assert sysfs.read(f"{CPU}/online") == f"0-{device.cores - 1}"
    limit_khz = device.preset_mode(default_preset(device)).cpu_khz
    for cpu in range(device.cores):
        assert sysfs.read(f"{CPU}/cpu{cpu}/cpufreq/scaling_max_freq") == str(limit_khz)
    assert all(int(sysfs.read(rail.current)) > 0 for rail in sysfs.layout.rails)


def test_old_kernels_refuse_a_minimum_above_the_maximum(tree: TreeFactory) -> None:
    sysfs = tree(STRICT)
    sysfs.write(f"{POLICY}/scaling_max_freq", "1190400")
    assert refused(sysfs, f"{POLICY}/scaling_min_freq", "2265600") == errno.EINVAL
    sysfs.write(f"{sysfs.layout.devfreq}/min_freq", "905250000")
    assert refused(sysfs, f"{sysfs.layout.devfreq}/max_freq", "318750000") == errno.EINVAL
    assert sysfs.read(f"{sysfs.layout.devfreq}/max_freq") == "1377000000"


def test_new_kernels_clamp_the_minimum_and_remember_it(tree: TreeFactory) -> None:
    sysfs = tree(QOS)
    sysfs.write(f"{POLICY}/scaling_max_freq", "1190400")
    sysfs.write(f"{POLICY}/scaling_min_freq", "2201600")
    assert sysfs.read(f"{POLICY}/scaling_min_freq") == "1190400"
    sysfs.write(f"{POLICY}/scaling_max_freq", "2112000")
    assert sysfs.read(f"{POLICY}/scaling_min_freq") == "2112000"


def test_a_clock_between_two_steps_is_rounded_without_an_error(tree: TreeFactory) -> None:
    sysfs = tree(QOS)
    sysfs.write(f"{POLICY}/scaling_max_freq", "1200000")
    assert sysfs.read(f"{POLICY}/scaling_max_freq") == "1190400"


@pytest.mark.parametrize("text", ["fast", "", "-5"])
def test_text_that_is_no_clock_is_refused(tree: TreeFactory, text: str) -> None:
    assert refused(tree(QOS), f"{POLICY}/scaling_max_freq", text) == errno.EINVAL


def test_files_the_kernel_only_shows_refuse_writes(tree: TreeFactory) -> None:
    sysfs = tree(QOS)
    assert refused(sysfs, f"{POLICY}/cpuinfo_max_freq", "1") == errno.EACCES
    assert not sysfs.is_writable(sysfs.layout.rails[0].current)
    assert sysfs.is_writable(f"{CPU}/cpu3/cpufreq/scaling_max_freq")
    assert refused(sysfs, f"{CPU}/cpu99/online", "1") == errno.ENOENT


def test_cpu0_never_goes_offline(tree: TreeFactory) -> None:
    sysfs = tree(QOS)
    assert refused(sysfs, f"{CPU}/cpu0/online", "0") == errno.EPERM
    assert sysfs.read(f"{CPU}/cpu0/online") == "1"


@pytest.mark.parametrize(("name", "code"), [("orin-agx", errno.EINVAL), ("orin-agx-11", errno.EBUSY)])
def test_a_policy_whose_cpus_are_all_offline_refuses_limits(tree: TreeFactory, name: str, code: int) -> None:
    sysfs = tree(name)
    for cpu in (8, 9, 10, 11):
        sysfs.write(f"{CPU}/cpu{cpu}/online", "0")
    assert sysfs.read(f"{CPU}/online") == "0-7"
    assert sysfs.read(f"{CPU}/offline") == "8-11"
    assert refused(sysfs, f"{CPU}/cpufreq/policy8/scaling_max_freq", "1190400") == code
    if code == errno.EBUSY:
        # The newer kernel does not let it be read either, as tests/kernel shows.
        with pytest.raises(SysfsError, match="EBUSY"):
            sysfs.read(f"{CPU}/cpufreq/policy8/affected_cpus")
    else:
        assert sysfs.read(f"{CPU}/cpufreq/policy8/affected_cpus") == ""


def test_an_old_kernel_forgets_the_limits_of_a_policy_that_went_away(tree: TreeFactory) -> None:
    sysfs = tree(STRICT)
    sysfs.write(f"{CPU}/cpufreq/policy2/scaling_max_freq", "1190400")
    for online in ("0", "1"):
        for cpu in (2, 3):
            sysfs.write(f"{CPU}/cpu{cpu}/online", online)
    assert sysfs.read(f"{CPU}/cpufreq/policy2/scaling_max_freq") == "2265600"


def test_old_cpusets_lose_an_offline_cpu_for_good_and_new_ones_recover(board: BoardFactory) -> None:
    old, new = board(STRICT), board(QOS)
    sets = [old.add_pod("aa-1") / "cpuset.cpus", new.add_pod("aa-1", "systemd") / "cpuset.cpus.effective"]
    for value in ("0", "1"):
        for simulated in (old, new):
            simulated.sysfs.write(f"{CPU}/cpu5/online", value)
    assert [file.read_text().strip() for file in sets] == ["0-4,6-7", "0-11"]


def test_the_memory_clock_needs_the_lock_a_legal_rate_and_room_under_the_cap(tree: TreeFactory) -> None:
    sysfs = tree(QOS)
    texts = []
    for path, text in [
        (f"{ORIN_EMC}/rate", "665600000"),  # not locked
        (f"{ORIN_EMC}/mrq_rate_locked", "1"),  # freezes the clock that runs
        (f"{ORIN_EMC}/rate", "666000000"),  # no such rate
        (f"{ORIN_EMC}/rate", "665600000"),
        (sysfs.layout.emc_cap, "2133000000"),
        (f"{ORIN_EMC}/rate", "3199000000"),  # above the cap
    ]:
        sysfs.write(path, text)
        texts.append(int(sysfs.read(f"{ORIN_EMC}/rate")))
    assert texts == [2133000000, 2133000000, 2133000000, 665600000, 665600000, 665600000]


def test_the_newer_cap_file_rounds_and_shows_the_effective_maximum(tree: TreeFactory) -> None:
    sysfs = tree("orin-agx-11")
    sysfs.write(sysfs.layout.emc_cap, "2500000000")
    assert sysfs.read(sysfs.layout.emc_cap) == "2133000000"


def test_the_nano_overrides_its_memory_clock_and_rounds_silently(tree: TreeFactory) -> None:
    sysfs = tree("nano")
    override = "/sys/kernel/debug/clk/override.emc"
    sysfs.write(f"{override}/clk_update_rate", "700000000")
    sysfs.write(f"{override}/clk_state", "1")
    assert sysfs.read("/sys/kernel/debug/clk/emc/clk_rate") == "800000000"


def test_gpu_limits_keep_kilohertz_and_zero_means_no_limit(tree: TreeFactory) -> None:
    sysfs = tree(QOS)
    gpu = "/sys/devices/gpu.0/devfreq/17000000.ga10b"
    sysfs.write(f"{gpu}/max_freq", "624750500")
    assert sysfs.read(f"{gpu}/max_freq") == "624751000"
    sysfs.write(f"{gpu}/max_freq", "0")
    assert sysfs.read(f"{gpu}/max_freq") == "1300500000"


def test_a_board_survives_being_opened_again_after_a_kill(board: BoardFactory) -> None:
    killed = board(QOS)
    killed.sysfs.write(f"{POLICY}/scaling_max_freq", "1190400")
    (killed.root / POLICY.lstrip("/") / "scaling_max_freq").write_text("torn")
    again = SimulatedBoard.open(killed.root, now=lambda: 0.0, timeout_s=None)
    assert again.sysfs.read(f"{POLICY}/scaling_max_freq") == "1190400"


def test_what_a_shell_writes_into_the_files_goes_through_the_same_rules(board: BoardFactory) -> None:
    simulated = board(QOS)
    limit = simulated.root / POLICY.lstrip("/") / "scaling_max_freq"
    limit.write_text("1200000\n")
    simulated.refresh()
    assert simulated.sysfs.read(f"{POLICY}/scaling_max_freq") == "1190400"
    for refused in ("rubbish", "1190401"):
        limit.write_text(f"{refused}\n")
        simulated.refresh()
        assert limit.read_text() == "1190400\n"


def test_opening_a_board_never_undoes_what_its_agent_writes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = SimulatedBoard.create(tmp_path, QOS)
    path, value = f"{POLICY}/scaling_max_freq", "1344000"
    writer = threading.Thread(target=lambda: agent.sysfs.write(path, value))
    project = SimulatedSysfs._project

    def interrupted(self: SimulatedSysfs, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        if self is not agent.sysfs:
            writer.start()
            writer.join(timeout=0.2)  # ends at once where nothing keeps it from writing in between
        project(self, before, after)

    monkeypatch.setattr(SimulatedSysfs, "_project", interrupted)
    SimulatedBoard.open(tmp_path)
    writer.join()
    assert agent.sysfs.read(path) == value
