"""The host's disk is full while a job runs: the limit falls, the load rises, and the board keeps the limit."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.simulate import Fault, FaultKind

from ..agent.scenarios.conftest import Scenario, envelope

LIMIT_W, LOAD_W = 20.0, 4.0


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of the state directory gets a new byte from now on; bytes that it has can be written again."""

    def write(_: StateDir, handle: int, data: bytes) -> None:
        if os.lseek(handle, 0, os.SEEK_CUR) + len(data) > os.fstat(handle).st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.write(handle, data)

    monkeypatch.setattr(StateDir, "_write", write)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes nothing at all any more."""

    def write(_: StateDir, handle: int, data: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(StateDir, "_write", write)


def lower_the_limit_then_raise_the_load(scenario: Scenario) -> list[float]:
    """Return the board's true power of each second, with what the load adds."""
    taken_w: list[float] = []
    # Without visits above the limit, which a ledger would allow: every second counts here.
    scenario.simulation.envelope(envelope(generation=2, limits={"powerWatts": LIMIT_W}, plan={"caution": "High"}))
    scenario.run(10)
    scenario.board.inject(Fault(FaultKind.POWER_OFFSET, value=LOAD_W))
    scenario.run(15)
    scenario.simulation.on_second = lambda: taken_w.append(scenario.true_w() + LOAD_W)
    scenario.run(20)
    return taken_w


def test_a_full_disk_does_not_keep_a_lower_limit_from_being_kept(running: Scenario, full: None) -> None:
    taken_w = lower_the_limit_then_raise_the_load(running)
    assert max(taken_w) <= LIMIT_W
    assert running.condition("ModeApplied") == ("True", "Verified")
    mode = running.board.mode()
    running.restart_agent()
    running.run(3)
    assert running.board.mode() == mode


def test_a_disk_that_takes_nothing_lets_the_guard_lower_the_mode(running: Scenario, broken: None) -> None:
    taken_w = lower_the_limit_then_raise_the_load(running)
    assert max(taken_w) <= LIMIT_W


def test_a_mode_that_could_not_be_set_is_never_called_kept(running: Scenario) -> None:
    assert running.condition("BudgetReachable") == ("True", "Kept")
    running.board.inject(Fault(FaultKind.FAIL_WRITE, "*max_freq*"))
    running.board.inject(Fault(FaultKind.FAIL_WRITE, "*scaling_max_freq"))
    running.simulation.envelope(envelope(generation=2, limits={"powerWatts": LIMIT_W}))
    running.run(12)
    assert running.condition("BudgetReachable") == ("False", "ApplyFailed")
    running.board.clear()
    running.run(200, lambda: running.condition("BudgetReachable") == ("True", "Kept"))  # modes under it are tried first
    assert running.condition("BudgetReachable") == ("True", "Kept")
    assert running.true_w() <= LIMIT_W


SAVES = """
import os, sys
from pathlib import Path
from powertrain_agent.control.state_dir import StateDir
disk = StateDir(Path(sys.argv[1]))
disk.replace("file", b"first", reserve_bytes=16384)
rest = os.open(Path(sys.argv[1]) / "rest", os.O_WRONLY | os.O_CREAT)
try:
    while True:
        os.write(rest, b"x" * 4096)
except OSError:
    pass
for number in range(50):
    data = (b"%d " % number) * (1 + number * 60)
    disk.replace("file", data, reserve_bytes=16384)
    assert disk.read("file").rstrip() == data.rstrip(), number
try:
    disk.replace("another", b"x" * 8192)
except OSError:
    print("full and saved")
"""


def test_saves_go_on_in_reserved_space_on_a_real_disk_without_a_free_block(tmp_path: Path) -> None:
    command = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=128k none {tmp_path} && exec "$@"', "sh"]
    result = subprocess.run(
        [*command, sys.executable, "-c", SAVES, str(tmp_path)], capture_output=True, text=True, check=False
    )
    if "ermitted" in result.stderr or "denied" in result.stderr:
        pytest.skip(f"a small file system can't be mounted here: {result.stderr.strip()}")
    assert result.stdout == "full and saved\n", result.stderr


def test_a_crash_between_two_names_never_overwrites_the_file_that_counts(tmp_path: Path) -> None:
    disk = StateDir(tmp_path)
    disk.replace("file", b"first", reserve_bytes=4096)
    (tmp_path / ".file.new").unlink()
    os.link(tmp_path / "file", tmp_path / ".file.new")

    class Dying(StateDir):
        def _flush(self, handle: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Dying(tmp_path).replace("file", b"second", reserve_bytes=4096)
    assert (disk.read("file") or b"").rstrip() == b"first"
