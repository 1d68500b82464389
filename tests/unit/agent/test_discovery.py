"""Discovery: every board of the catalogue by its files alone, and poor boards that start, say so and stay harmless."""

from pathlib import Path

import pytest

from powertrain import devices
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.snapshot import SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware import gpu as gpus
from powertrain_agent.hardware.board import UNKNOWN, CorePolicy, discover
from powertrain_agent.hardware.capability import Access
from powertrain_agent.hardware.files import format_cpus, parse_cpus
from powertrain_agent.simulate.faults import Fault, FaultKind
from powertrain_agent.sysfs import Sysfs

KNOBS = ("cores", "cpu", "gpu", "emc")


def _tree(root: Path, files: dict[str, str]) -> Sysfs:
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return Sysfs(root, timeout_s=None)


@pytest.mark.parametrize("name", devices.names())
def test_discovered_tables_are_the_catalogues(board, name: str) -> None:
    device = devices.get(name)
    hardware = discover(board(name).sysfs)
    assert hardware.name == name
    assert hardware.cpu.table_khz == device.tables.cpu_khz.values
    assert hardware.gpu is not None
    assert hardware.gpu.table_hz == device.tables.gpu_hz.values
    assert hardware.emc is not None
    assert hardware.emc.table_hz == device.tables.emc_hz.values
    assert {policy.cpus for policy in hardware.cpu.policies} == {tuple(sorted(c)) for c in device.clusters}
    assert hardware.sensors.total == device.sensors.total
    assert hardware.core_order == device.core_order
    assert all(hardware.can(knob) for knob in KNOBS), hardware.capabilities
    assert hardware.space(CorePolicy.HOTPLUG) == device.space()


def test_fixed_cores_give_one_value_at_what_is_online(board) -> None:
    hardware = discover(board("orin-agx", preset=2).sysfs)
    assert hardware.space().cores.tolist() == [8]
    assert hardware.space(CorePolicy.HOTPLUG).cores.tolist() == list(range(1, 13))


def test_fingerprint_tells_boards_tables_and_policies_apart(board) -> None:
    first = discover(board("orin-agx").sysfs)
    again = discover(board("orin-agx").sysfs)
    other = discover(board("orin-agx-11").sysfs)
    assert first.fingerprint() == again.fingerprint()
    assert first.fingerprint().as_dict().keys() == {"module", "l4t", "tables", "tpcMask", "corePolicy", "totalRail"}
    assert first.fingerprint().tables != other.fingerprint().tables
    assert first.fingerprint() != first.fingerprint(CorePolicy.HOTPLUG)
    assert first.fingerprint().tpc_mask == "0"
    assert first.fingerprint().total_rail == "sum"


GPU_FILES = {"available_frequencies": "306000000 408000000 ", "min_freq": "306000000", "max_freq": "408000000"}
GPU_PATHS = [
    "/sys/devices/57000000.gpu/devfreq/57000000.gpu",
    "/sys/devices/gpu.0/devfreq/57000000.gpu",
    "/sys/devices/17000000.gp10b/devfreq/17000000.gp10b",
    "/sys/devices/17000000.gv11b/devfreq/17000000.gv11b",
    "/sys/devices/17000000.gv11b/devfreq_dev",
    "/sys/devices/17000000.ga10b/devfreq/17000000.ga10b",
    "/sys/devices/17000000.ga10b/devfreq_dev",
    "/sys/devices/platform/17000000.gpu/devfreq_dev",
    "/sys/devices/platform/gpu.0/devfreq_dev",
    "/sys/devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu",
    "/sys/class/devfreq/gpu-gpc-0",
]


@pytest.mark.parametrize("path", GPU_PATHS)
def test_gpu_is_found_at_every_known_place(tmp_path: Path, path: str) -> None:
    gpu = gpus.discover(_tree(tmp_path, {f"{path}/{name}": text for name, text in GPU_FILES.items()}))
    assert gpu is not None
    assert gpu.path == path
    assert gpu.table_hz == (306000000, 408000000)


@pytest.mark.parametrize("node", [("name", "ga10b\0"), ("name", "gpu\0"), ("compatible", "nvidia,ga10b\0")])
def test_gpu_is_found_by_its_device_tree_node(tmp_path: Path, node: tuple[str, str]) -> None:
    base = "/sys/devices/somewhere/new"
    files = {f"{base}/devfreq/x/{name}": text for name, text in GPU_FILES.items()} | {
        f"{base}/of_node/{node[0]}": node[1]
    }
    sysfs = _tree(tmp_path, files)
    (tmp_path / "sys/class/devfreq").mkdir(parents=True)
    (tmp_path / "sys/class/devfreq/x").symlink_to("../../devices/somewhere/new/devfreq/x")
    (tmp_path / "sys/devices/somewhere/new/devfreq/x/device").symlink_to("../..")
    gpu = gpus.discover(sysfs)
    assert gpu is not None
    assert (gpu.path, gpu.device_path) == (f"{base}/devfreq/x", base)


def test_a_gated_gpu_says_how_to_wake_it(tmp_path: Path) -> None:
    sysfs = _tree(tmp_path, {"/sys/devices/17000000.gv11b/railgate_enable": "1"})
    capability = gpus.capability(sysfs, gpus.discover(sysfs))
    assert capability.access is Access.MISSING
    assert "railgate_enable" in capability.reason


# Poor boards


def _harmless(sysfs: Sysfs, state: Path) -> None:
    """Whatever can't be used is a single value, and the one mode that is left can be applied and restored."""
    board = discover(sysfs)
    controller = Controller(sysfs, board, SnapshotStore(StateDir(state), sysfs), pause=lambda _: None)
    if any(board.can(knob) for knob in KNOBS):
        assert controller.apply(controller.space[0]).ok
    assert controller.restore().ok


def test_board_without_a_memory_lock_keeps_its_memory_clock(board, tmp_path: Path) -> None:
    simulated = board("orin-nano")
    simulated.inject(Fault(FaultKind.VANISH, target="/sys/kernel/debug/*"))
    hardware = discover(simulated.sysfs)
    assert hardware.capabilities["emc"].access is Access.READ_ONLY
    assert "debugfs" in hardware.capabilities["emc"].reason
    assert len(hardware.space().emc_hz) == 1
    _harmless(simulated.sysfs, tmp_path)


def test_board_without_any_memory_knob_says_so(board, tmp_path: Path) -> None:
    simulated = board("orin-nano")
    simulated.inject(Fault(FaultKind.VANISH, target="/sys/kernel/*"))
    hardware = discover(simulated.sysfs)
    assert hardware.capabilities["emc"].access is Access.MISSING
    assert hardware.space().emc_hz.tolist() == [UNKNOWN]
    _harmless(simulated.sysfs, tmp_path)


def test_board_without_a_power_sensor_says_that_budgets_can_not_be_kept(board, tmp_path: Path) -> None:
    simulated = board("orin-nano")
    simulated.inject(Fault(FaultKind.VANISH, target="/sys/bus/i2c/*"))
    hardware = discover(simulated.sysfs)
    assert hardware.capabilities["power"].access is Access.MISSING
    assert "can't be kept" in hardware.capabilities["power"].reason
    assert hardware.fingerprint().total_rail == "none"
    _harmless(simulated.sysfs, tmp_path)


def test_board_unknown_to_the_catalogue_works_from_its_files(board, tmp_path: Path) -> None:
    simulated = board("orin-nano")
    (simulated.root / "proc/device-tree/compatible").write_text("acme,p9999-0001\0nvidia,tegra999\0")
    hardware = discover(simulated.sysfs)
    assert hardware.device is None
    assert hardware.identity.is_jetson
    assert hardware.core_order == (0, 1, 2, 3, 4, 5)
    assert hardware.sensors.total == "VDD_IN"
    assert all(hardware.can(knob) for knob in KNOBS)
    _harmless(simulated.sysfs, tmp_path)


def test_read_only_mount_gives_read_only_knobs(board) -> None:
    simulated = board("orin-nano")

    class Mounted(type(simulated.sysfs)):
        def is_writable(self, path: str) -> bool:
            return False

    simulated.sysfs.__class__ = Mounted
    hardware = discover(simulated.sysfs)
    assert {str(hardware.capabilities[knob].access) for knob in (*KNOBS, "fan")} == {"read-only"}
    assert len(hardware.space(CorePolicy.HOTPLUG)) == 1


def test_plain_machine_is_no_jetson_and_is_not_touched(tmp_path: Path) -> None:
    policy = "/sys/devices/system/cpu/cpufreq/policy0"
    files = {
        "/sys/devices/system/cpu/present": "0-1",
        "/sys/devices/system/cpu/online": "0-1",
        "/sys/devices/system/cpu/cpu1/online": "1",
        f"{policy}/related_cpus": "0 1",
        f"{policy}/scaling_available_frequencies": "1000000 2000000",
        f"{policy}/scaling_min_freq": "1000000",
        f"{policy}/scaling_max_freq": "2000000",
    }
    sysfs = _tree(tmp_path / "host", files)
    board = discover(sysfs)
    assert not board.identity.is_jetson
    assert "not a Jetson" in board.capabilities["cpu"].reason
    assert board.capabilities["gpu"].access is Access.MISSING
    assert not any(board.can(knob) for knob in (*KNOBS, "fan"))
    before = {path: Path(sysfs.locate(path)).stat().st_mtime_ns for path in files}
    assert len(board.space(CorePolicy.HOTPLUG)) == 1
    _harmless(sysfs, tmp_path / "state")
    assert {path: Path(sysfs.locate(path)).stat().st_mtime_ns for path in files} == before


def test_this_very_machine_is_discovered_without_an_error() -> None:
    board = discover(Sysfs("/", timeout_s=2.0))
    assert set(board.capabilities) >= {*KNOBS, "power", "thermal", "over-current", "fan", "tpc"}


def test_an_empty_root_is_discovered_without_an_error(tmp_path: Path) -> None:
    board = discover(Sysfs(tmp_path))
    assert {str(c.access) for c in board.capabilities.values()} == {"missing"}
    assert all(c.reason for c in board.capabilities.values())


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,6", (0, 1, 2, 3, 6)), ("0 1 2 3", (0, 1, 2, 3)), ("", ()), ("7", (7,))]
)
def test_cpu_lists(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == cpus
    assert parse_cpus(format_cpus(cpus)) == cpus
