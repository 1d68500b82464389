"""A pod is alive while its control group exists: both hierarchies, both naming schemes."""

from pathlib import Path

import pytest

from powertrain_agent.control.cgroups import PodCgroup, look
from powertrain_agent.sysfs import Sysfs

UID = "3f0c1f6e-9a3b-4c7e-8d11-0a1b2c3d4e5f"
FLAT = UID.replace("-", "_")

PLACES = {
    "v2 systemd, burstable": f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FLAT}.slice",
    "v2 systemd, guaranteed": f"kubepods.slice/kubepods-pod{FLAT}.slice",
    "v2 cgroupfs, best effort": f"kubepods/besteffort/pod{UID}",
    "v2 cgroupfs, guaranteed": f"kubepods/pod{UID}",
    "v1 cgroupfs": f"pids/kubepods/burstable/pod{UID}",
    "v1 systemd": f"memory/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{FLAT}.slice",
    "v1 joined controllers": f"cpu,cpuacct/kubepods/burstable/pod{UID}",
    "kubelet in a container": (
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{FLAT}.slice"
    ),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_pod_is_found_wherever_kubelets_put_it(tmp_path: Path, place: str) -> None:
    (tmp_path / "sys/fs/cgroup" / place).mkdir(parents=True)
    assert look(Sysfs(tmp_path), [UID]) is PodCgroup.PRESENT
    assert look(Sysfs(tmp_path), ["00000000-0000-0000-0000-000000000000"]) is PodCgroup.ABSENT


def test_one_living_pod_of_several_is_enough(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup/kubepods/burstable" / f"pod{UID}").mkdir(parents=True)
    assert look(Sysfs(tmp_path), ["gone", UID]) is PodCgroup.PRESENT


def test_a_pod_that_ended_is_absent(tmp_path: Path) -> None:
    pod = tmp_path / "sys/fs/cgroup/kubepods/burstable" / f"pod{UID}"
    pod.mkdir(parents=True)
    pod.rmdir()
    assert look(Sysfs(tmp_path), [UID]) is PodCgroup.ABSENT


def test_a_host_that_shows_no_pods_at_all_is_unreadable(tmp_path: Path) -> None:
    assert look(Sysfs(tmp_path), [UID]) is PodCgroup.UNREADABLE
    (tmp_path / "sys/fs/cgroup/system.slice").mkdir(parents=True)
    assert look(Sysfs(tmp_path), [UID]) is PodCgroup.UNREADABLE
