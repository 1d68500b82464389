"""What the snapshot keeps for a person to read and the agent never writes: governors, idle states, power gating."""

from __future__ import annotations

from powertrain_agent.hardware.board import Board
from powertrain_agent.hardware.cpu import BASE
from powertrain_agent.hardware.files import optional
from powertrain_agent.sysfs import Sysfs

NVPMODEL_STATUS = "/var/lib/nvpmodel/status"


def record(sysfs: Sysfs, board: Board) -> dict[str, str]:
    """Return path and text of each such file that can be read."""
    paths = [f"{BASE}/online", NVPMODEL_STATUS]
    paths += [f"{policy.path}/scaling_governor" for policy in board.cpu.policies]
    for cpu in board.cpu.present:
        idle = f"{BASE}/cpu{cpu}/cpuidle"
        paths += [f"{idle}/{state}/disable" for state in sysfs.list(idle)]
    if board.gpu:
        paths.append(f"{board.gpu.path}/governor")
        paths += [f"{board.gpu.device_path}/{name}" for name in ("railgate_enable", "power/control", "tpc_pg_mask")]
    return {path: text for path in paths if (text := optional(sysfs, path)) is not None}
