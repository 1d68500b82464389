"""The doctor tries every knob, names what fails with its remedy, and leaves the board as it found it."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from powertrain_agent.doctor import DoctorReport, KnobReport, run_doctor
from powertrain_agent.mounts import FAMILIES
from powertrain_agent.simulate import Fault, FaultKind, SimulatedBoard
from powertrain_agent.sysfs import Sysfs

BoardFactory = Callable[..., SimulatedBoard]

FAMILY = {
    "nano": "nano-r32",
    "orin-agx": "orin-r35",
    "orin-agx-11": "orin-r36",
    "orin-nano": "orin-r35",
    "orin-nx-16": "orin-r36",
    "tx2-nx": "generic",
    "xavier-agx": "xavier-r32",
    "xavier-nx": "generic",
}


def examine(simulated: SimulatedBoard, **options: object) -> DoctorReport:
    state_dir = simulated.root / "var/lib/powertrain/doctor"
    return run_doctor(simulated.sysfs, state_dir=state_dir, pause=lambda seconds: None, **options)  # type: ignore[arg-type]


def knob(report: DoctorReport, name: str) -> KnobReport:
    return next(knob for knob in report.knobs if knob.knob == name)


def attributes(simulated: SimulatedBoard) -> dict[str, str]:
    """Every control attribute but the memory rate, which moves by itself while it is not locked."""
    rules = simulated.sysfs.rules
    values = rules.visible(simulated.sysfs.state().requests)
    return {path: text for path, text in values.items() if path != rules.emc_rate}


def writes_of(simulated: SimulatedBoard) -> list[str]:
    writes: list[str] = []
    simulated.sysfs.before_write = lambda path, text: writes.append(path)
    return writes


@pytest.mark.parametrize("name", FAMILY)
def test_every_knob_of_a_sound_board_is_tried_and_put_back(board: BoardFactory, name: str) -> None:
    simulated = board(name)
    before = attributes(simulated)
    report = examine(simulated, try_cores=True)
    assert attributes(simulated) == before
    for tried in ("cores", "cpu", "gpu", "emc", "fan"):
        assert (knob(report, tried).write, knob(report, tried).verify, knob(report, tried).restore) == (
            True,
            True,
            True,
        )
    assert knob(report, "power").read
    assert report.healthy
    assert report.mount_family == FAMILY[name]
    assert report.missing_mounts == ()
    assert not (simulated.root / "var/lib/powertrain/doctor/snapshot.json").exists()


def test_read_only_writes_nothing(board: BoardFactory) -> None:
    simulated = board()
    writes = writes_of(simulated)
    report = examine(simulated, read_only=True, try_cores=True)
    assert writes == []
    assert knob(report, "gpu").write is None
    assert report.verdict.endswith("read only; everything can be read.")
    assert not (simulated.root / "var/lib/powertrain").exists()


def test_cores_are_left_alone_unless_asked(board: BoardFactory) -> None:
    simulated = board()
    writes = writes_of(simulated)
    report = examine(simulated)
    assert not [path for path in writes if path.endswith("/online")]
    assert "--cores" in knob(report, "cores").reason
    assert report.healthy


def test_a_plain_pc_is_named_and_not_touched(tmp_path: Path) -> None:
    cpu = tmp_path / "sys/devices/system/cpu/cpufreq/policy0"
    cpu.mkdir(parents=True)
    (cpu / "scaling_max_freq").write_text("3000000\n")
    report = run_doctor(Sysfs(tmp_path), state_dir=tmp_path / "state/doctor")
    assert not report.is_jetson
    assert report.knobs == ()
    assert report.verdict.startswith("not a Jetson")
    assert report.verdict.endswith("nothing was touched.")
    assert (cpu / "scaling_max_freq").read_text() == "3000000\n"
    assert not (tmp_path / "state").exists()


def test_a_knob_that_refuses_is_named_with_a_command_and_the_others_are_still_tried(board: BoardFactory) -> None:
    simulated = board()
    before = attributes(simulated)
    simulated.inject(Fault(FaultKind.FAIL_WRITE, "*/devfreq/*", errno=errno.EBUSY))
    report = examine(simulated)
    gpu = knob(report, "gpu")
    assert gpu.write is False
    assert "refused with EBUSY" in gpu.reason
    assert "nvpmodel -q" in gpu.fix
    assert knob(report, "emc").restore is True
    assert not report.healthy
    assert "can't work here: GPU clock" in report.verdict
    simulated.clear()
    assert attributes(simulated) == before


def test_an_ignored_write_does_not_count_as_written(board: BoardFactory) -> None:
    simulated = board()
    simulated.inject(Fault(FaultKind.IGNORE_WRITE, "scaling_max_freq"))
    report = examine(simulated)
    assert knob(report, "cpu").write is False
    assert "ignored" in knob(report, "cpu").reason
    assert "without CPU clock" in report.verdict


def test_a_clock_that_is_not_applied_fails_the_verification_under_load(board: BoardFactory) -> None:
    simulated = board()
    simulated.load("resnet18")
    simulated.inject(Fault(FaultKind.CLOCK_NOT_APPLIED, "gpu", value=-3))
    gpu = knob(examine(simulated), "gpu")
    assert (gpu.write, gpu.verify, gpu.restore) == (True, False, True)
    assert "cur_freq shows" in gpu.reason


def test_a_board_without_debugfs_is_told_to_mount_it(board: BoardFactory) -> None:
    simulated = board("orin-agx-11")
    shutil.rmtree(simulated.root / "sys/kernel")
    report = examine(simulated)
    assert not knob(report, "emc").read
    assert knob(report, "emc").fix == "sudo mount -t debugfs none /sys/kernel/debug"
    assert report.healthy
    assert set(report.missing_mounts) == {"/sys/kernel/debug/bpmp", "/sys/kernel/nvpmodel_clk_cap"}


def test_a_board_without_a_power_sensor_can_not_be_used(board: BoardFactory) -> None:
    simulated = board()
    shutil.rmtree(simulated.root / "sys/bus/i2c")
    report = examine(simulated)
    assert knob(report, "power").fix == "sudo modprobe ina3221"
    assert not report.healthy


def test_a_full_disk_keeps_every_knob_untouched(board: BoardFactory) -> None:
    simulated = board()
    (simulated.root / "var/lib/powertrain").write_text("a file where the directory should be")
    writes = writes_of(simulated)
    report = examine(simulated)
    assert writes == []
    assert knob(report, "gpu").write in (None, False)


def test_a_board_that_an_agent_works_on_is_only_read(board: BoardFactory) -> None:
    simulated = board()
    snapshot_file = simulated.root / "var/lib/powertrain/snapshot.json"
    snapshot_file.parent.mkdir(parents=True)
    snapshot_file.write_text("{}")
    writes = writes_of(simulated)
    report = examine(simulated)
    assert writes == []
    assert "an agent works on this board" in knob(report, "gpu").reason


def test_what_a_killed_doctor_left_is_restored_by_the_next_one(board: BoardFactory) -> None:
    class Killed(BaseException):
        pass

    simulated = board()
    before = attributes(simulated)
    writes = 0

    def kill(path: str, text: str) -> None:
        nonlocal writes
        writes += 1
        if writes == 5:
            raise Killed

    simulated.sysfs.after_write = kill
    with pytest.raises(Killed):
        examine(simulated)
    assert attributes(simulated) != before
    simulated.sysfs.after_write = None
    assert examine(simulated).healthy
    assert attributes(simulated) == before


def test_a_knob_that_can_not_be_restored_is_the_first_thing_said(board: BoardFactory) -> None:
    simulated = board()
    gpu = f"{simulated.sysfs.layout.devfreq}/max_freq"

    def break_after(path: str, text: str) -> None:
        if path == gpu and text == "1236750000":
            simulated.inject(Fault(FaultKind.FAIL_WRITE, gpu))

    simulated.sysfs.after_write = break_after
    report = examine(simulated)
    assert knob(report, "gpu").restore is False
    assert "NOT restored: GPU clock" in report.verdict
    assert not report.healthy


def test_gated_gpu_parts_get_the_advice_to_boot_in_the_full_mode(board: BoardFactory) -> None:
    simulated = board()
    mask = simulated.root / simulated.sysfs.layout.gpu.lstrip("/") / "tpc_pg_mask"
    mask.unlink()
    mask.write_text("240\n")
    assert "nvpmodel -m 0" in knob(examine(simulated), "tpc").fix


def test_the_report_is_json(board: BoardFactory) -> None:
    document = json.loads(json.dumps(examine(board("nano")).as_dict()))
    assert document["mount_family"] == "nano-r32"
    assert {"knob", "read", "write", "verify", "restore", "value", "reason", "fix"} <= set(document["knobs"][0])


def test_every_family_names_directories_of_the_host() -> None:
    assert set(FAMILIES) == {"orin-r36", "orin-r35", "xavier-r32", "nano-r32", "generic"}
    assert all(path.startswith("/sys/") for family in FAMILIES.values() for path in family.writable)
