"""A simulated board in a pod: its jobs run on the host, so control groups and boots are the host's."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from powertrain import PowerMode
from powertrain_agent.board_restorer import SESSION
from powertrain_agent.control.hold_or_restore import Action
from powertrain_agent.main import SetupError, open_runtime, parser
from powertrain_agent.runtime import Runtime
from powertrain_agent.simulate import SimulatedBoard
from powertrain_kube.log import Log

LOW = PowerMode(12, 729600, 318750000, 665600000)
BOOT_ID = "proc/sys/kernel/random/boot_id"
POD = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    (root / BOOT_ID).parent.mkdir(parents=True)
    (root / "sys/fs/cgroup/pids/kubepods/besteffort").mkdir(parents=True)
    (root / BOOT_ID).write_text("host-boot-1\n")
    return root


def start(board: Path, host: Path) -> Runtime:
    arguments = ["--simulate", "orin-agx", "--host-root", str(board), "--pods-root", str(host)]
    return open_runtime(parser().parse_args(arguments), Log(io.StringIO()))


def gpu_limit_hz(board: Path) -> int:
    sysfs = SimulatedBoard.open(board).sysfs
    return int(sysfs.read(f"{sysfs.layout.devfreq}/max_freq"))


def test_the_board_has_the_hosts_boot_id_and_boots_with_it(tmp_path: Path, host: Path) -> None:
    board = tmp_path / "board"
    first = start(board, host)
    assert first.board_restorer.controller.store.boot_id() == "host-boot-1"
    first.board_restorer.controller.apply(LOW)
    assert gpu_limit_hz(board) == LOW.gpu_hz
    first.let_go()
    (host / BOOT_ID).write_text("host-boot-2\n")
    assert start(board, host).board_restorer.controller.store.boot_id() == "host-boot-2"
    assert gpu_limit_hz(board) > LOW.gpu_hz


def test_a_pod_on_the_host_holds_the_simulated_board(tmp_path: Path, host: Path) -> None:
    board_restorer = start(tmp_path / "board", host).board_restorer
    board_restorer.controller.apply(LOW)
    state = tmp_path / "board/var/lib/powertrain"
    (state / SESSION).write_text(json.dumps({"uid": "s-1", "podUIDs": [POD]}))
    pod = host / f"sys/fs/cgroup/pids/kubepods/besteffort/pod{POD}"
    pod.mkdir()
    ticked = board_restorer.tick()
    assert ticked is not None
    assert ticked[0].action is Action.HOLD
    assert "pod" in ticked[0].reason


def test_a_real_board_has_its_own_pods(tmp_path: Path) -> None:
    options = parser().parse_args(["--host-root", str(tmp_path), "--pods-root", str(tmp_path)])
    with pytest.raises(SetupError, match="--pods-root needs --simulate"):
        open_runtime(options, Log(io.StringIO()))
