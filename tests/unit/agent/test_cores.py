"""The core policy: fixed unless asked, allowed and safe; cpusets of the old hierarchy are repaired."""

import json
from pathlib import Path

import pytest

from powertrain_agent.control.controller import Controller
from powertrain_agent.control.cores import CPU_MANAGER_STATE, effective_policy, repair_cpusets
from powertrain_agent.control.snapshot import SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware.board import CorePolicy, discover
from powertrain_agent.sysfs import Sysfs


def _kubelet(root: Path, text: str) -> None:
    target = root / CPU_MANAGER_STATE.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


@pytest.mark.parametrize(
    ("state", "policy", "reason"),
    [
        (json.dumps({"policyName": "none", "checksum": 1}), CorePolicy.HOTPLUG, ""),
        (json.dumps({"policyName": "static", "defaultCpuSet": "0-11"}), CorePolicy.FIXED, "'static'"),
        ("{}", CorePolicy.FIXED, "can't be understood"),
        ("not json", CorePolicy.FIXED, "can't be understood"),
        (None, CorePolicy.FIXED, "is not known"),
    ],
)
def test_hotplug_needs_a_kubelet_that_does_not_pin_pods(tree, state, policy, reason) -> None:
    sysfs = tree("orin-agx")
    (sysfs.root / CPU_MANAGER_STATE.lstrip("/")).unlink(missing_ok=True)
    if state is not None:
        _kubelet(sysfs.root, state)
    allowed_policy, why = effective_policy(sysfs, discover(sysfs), CorePolicy.HOTPLUG)
    assert allowed_policy is policy
    assert reason in why


class Mounted(Sysfs):
    """A host whose file was mounted alone: its name leads to the file that was there then."""

    def __init__(self, root: Path, path: str) -> None:
        super().__init__(root)
        self._path, self._handle = path, (root / path.lstrip("/")).open()

    def locate(self, path: str) -> str:
        return f"/proc/self/fd/{self._handle.fileno()}" if path == self._path else super().locate(path)

    def close(self) -> None:
        self._handle.close()


def test_a_state_that_the_kubelet_has_replaced_meanwhile_is_not_trusted(tree) -> None:
    root = tree("orin-agx").root
    _kubelet(root, json.dumps({"policyName": "none"}))
    mounted = Mounted(root, CPU_MANAGER_STATE)
    board = discover(mounted)
    assert effective_policy(mounted, board, CorePolicy.HOTPLUG) == (CorePolicy.HOTPLUG, "")
    other = root / "written-beside"
    other.write_text(json.dumps({"policyName": "static"}))
    other.rename(root / CPU_MANAGER_STATE.lstrip("/"))
    policy, why = effective_policy(mounted, board, CorePolicy.HOTPLUG)
    mounted.close()
    assert policy is CorePolicy.FIXED
    assert "has replaced" in why


def test_fixed_is_fixed_without_a_question(tree) -> None:
    sysfs = tree("orin-agx")
    assert effective_policy(sysfs, discover(sysfs), CorePolicy.FIXED) == (CorePolicy.FIXED, "")


def test_hotplug_space_starts_at_the_floor(tree) -> None:
    board = discover(tree("tx2-nx"))
    assert board.space(CorePolicy.HOTPLUG, min_cores=3).cores.tolist() == [3, 4, 5, 6]
    assert board.space(CorePolicy.FIXED).cores.tolist() == [6]


def test_cores_come_in_the_boards_order_and_the_boot_cpu_stays(tree, tmp_path: Path) -> None:
    sysfs = tree("tx2-nx")
    writes = []
    sysfs.before_write = lambda path, text: writes.append((path, text))
    controller = Controller(sysfs, discover(sysfs), SnapshotStore(StateDir(tmp_path), sysfs), CorePolicy.HOTPLUG)
    for count, online in ((4, "0,3-5"), (1, "0"), (5, "0-1,3-5")):
        mode = next(m for m in controller.space if m.cores == count)
        controller.apply(mode)
        assert sysfs.read("/sys/devices/system/cpu/online") == online
    controller.restore()
    assert not any("/cpu0/online" in path for path, _ in writes)


def _cpuset(root: Path, group: str, cpus: str) -> Path:
    directory = root / "sys/fs/cgroup/cpuset" / group
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cpuset.cpus").write_text(f"{cpus}\n")
    return directory / "cpuset.cpus"


def test_returned_cpus_go_back_to_the_pods_and_to_nobody_else(tmp_path: Path) -> None:
    _cpuset(tmp_path, "", "0-5")
    pods = [_cpuset(tmp_path, name, "0-1") for name in ("kubepods", "kubepods/burstable", "kubepods/burstable/pod1/c1")]
    pods.append(_cpuset(tmp_path, "kubepods/burstable/pod1", "0-1"))
    other = _cpuset(tmp_path, "docker", "0-1")
    assert repair_cpusets(Sysfs(tmp_path), {2, 3}) == ()
    assert [pod.read_text() for pod in pods] == ["0-3\n"] * 4
    assert other.read_text() == "0-1\n"


def test_a_cpuset_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    _cpuset(tmp_path, "", "0-3")
    (tmp_path / "sys/fs/cgroup/cpuset/kubepods").mkdir()
    broken = tmp_path / "sys/fs/cgroup/cpuset/kubepods/cpuset.cpus"
    broken.symlink_to("nowhere")
    assert repair_cpusets(Sysfs(tmp_path), {3})[0].startswith("pods in /sys/fs/cgroup/cpuset/kubepods lack CPUs 3")


def test_the_new_hierarchy_needs_no_repair(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup/kubepods.slice").mkdir(parents=True)
    assert repair_cpusets(Sysfs(tmp_path), {3}) == ()


def test_restore_repairs_the_old_hierarchy(tree, tmp_path: Path) -> None:
    sysfs = tree("xavier-agx")
    controller = Controller(sysfs, discover(sysfs), SnapshotStore(StateDir(tmp_path), sysfs), CorePolicy.HOTPLUG)
    controller.apply(controller.space[0])
    assert sysfs.read("/sys/fs/cgroup/cpuset/kubepods/cpuset.cpus") == "0"
    assert controller.restore().notes == ()
    assert sysfs.read("/sys/fs/cgroup/cpuset/kubepods/cpuset.cpus") == "0-7"
