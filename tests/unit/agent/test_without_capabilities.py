"""A simulated board as the chart runs it: root without any capability, for whom read-only files are read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
from powertrain_agent.simulate import SimulatedBoard
root = Path(sys.argv[1])
SimulatedBoard.create(root, "orin-agx")
board = SimulatedBoard.open(root)
board.boot_with("another-boot")
board.sysfs.write("/sys/devices/system/cpu/cpu11/online", "0")
print((root / "sys/fs/cgroup/kubepods.slice/cpuset.cpus.effective").read_text().strip())
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv to drop rights"
)
def test_a_board_is_made_opened_booted_and_written_without_capabilities(tmp_path: Path) -> None:
    plain = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", SCRIPT, str(tmp_path)]
    result = subprocess.run(plain, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "0-10\n"
