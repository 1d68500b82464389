"""What a kernel machine is made of, as far as it needs no emulator: device trees and archives."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest

from powertrain import devices
from powertrain_devcluster.builds.images import prune
from powertrain_devcluster.errors import BadInputError
from powertrain_devcluster.kernel.devicetree import additions
from powertrain_devcluster.kernel.files import write_archive

WITH_A_TREE = [name for name in devices.names() if devices.get(name).tree.gpu_node]


@pytest.mark.parametrize("name", WITH_A_TREE)
def test_a_board_becomes_a_device_tree_with_every_cpu_clock_and_rail(name: str) -> None:
    device, text = devices.get(name), additions(devices.get(name))
    assert text.count("{") == text.count("}")
    assert all(f"&{{/cpus/cpu@{cpu}}}" in text for cpu in range(device.cores))
    assert all(f"opp-hz = /bits/ 64 <{hz}>" in text for hz in device.tables.gpu_hz.values)
    assert all(f'label = "{rail}"' in text for rail in device.sensors.rails)
    assert ("bwmgr {" in text) == device.tree.bwmgr


def test_an_old_release_has_its_gpu_directly_below_devices_and_a_new_one_on_a_bus() -> None:
    assert 'powertrain,root-name = "17000000.ga10b"' in additions(devices.get("orin-nano"))
    assert "powertrain,root-name" not in additions(devices.get("orin-nx-16"))


def test_a_gpu_without_an_address_is_refused() -> None:
    with pytest.raises(BadInputError, match="thor: no device tree gives a GPU at"):
        additions(devices.get("thor"))


def test_the_archive_has_a_header_per_entry_and_ends_with_the_trailer() -> None:
    out = io.BytesIO()
    write_archive(out, [("bin", stat.S_IFDIR | 0o755, b""), ("bin/sh", stat.S_IFREG | 0o755, b"12345")])
    data = out.getvalue()
    assert data.count(b"070701") == 3
    assert len(data) % 4 == 0
    at = data.index(b"bin/sh\0") - 110
    assert int(data[at + 54 : at + 62], 16) == 5
    assert data[at + 110 + 7 + 3 :].startswith(b"12345\0\0\0")
    assert b"TRAILER!!!\0" in data


def test_states_of_earlier_contents_go_when_they_are_old_and_those_of_other_boards_stay(tmp_path: Path) -> None:
    target, old, fresh, other = (
        tmp_path / name
        for name in (
            "orin-nano-aaaaaaaaaaaa",
            "orin-nano-bbbbbbbbbbbb",
            "orin-nano-cccccccccccc",
            "orin-nano-super-dddddddddddd",
        )
    )
    for folder in (target, old, fresh, other):
        folder.mkdir()
    for folder in (target, old, other):
        os.utime(folder, (0, 0))
    prune(target, "orin-nano")
    assert {path.name for path in tmp_path.iterdir()} == {target.name, fresh.name, other.name}
