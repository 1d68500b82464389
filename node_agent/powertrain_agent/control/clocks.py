"""Do the measured clocks follow the mode: a tolerant comparison for a board under load."""

from __future__ import annotations

from powertrain import PowerMode
from powertrain_agent.hardware.board import Board
from powertrain_agent.hardware.cpu import online
from powertrain_agent.hardware.files import number
from powertrain_agent.sysfs import Sysfs, SysfsError

TOLERANCE = 0.03  # a loaded AGX Orin pinned to 1344000 kHz measures 1326000 to 1332000


def off_clock(sysfs: Sysfs, board: Board, mode: PowerMode, tolerance: float = TOLERANCE) -> dict[str, int]:
    """Return the clocks that are away from the mode, by file. An idle GPU parks its clock and is not judged."""
    target_hz: dict[str, int] = {}
    try:
        active = set(online(sysfs))
    except SysfsError:
        active = set(board.cpu.present)
    if board.can("cpu"):
        for policy in board.cpu.policies:
            if policy.table_khz and active & set(policy.cpus):
                target_hz[f"{policy.path}/cpuinfo_cur_freq"] = policy.legal_khz(mode.cpu_khz)
    if board.gpu and board.can("gpu") and (number(sysfs, f"{board.gpu.device_path}/load") or 0) > 0:
        target_hz[f"{board.gpu.path}/cur_freq"] = mode.gpu_hz
    if board.emc and board.emc.is_held and board.can("emc"):
        target_hz[board.emc.rate_read] = mode.emc_hz
    measured = {path: number(sysfs, path) for path in target_hz}
    return {
        path: value
        for path, value in measured.items()
        if value is not None and abs(value - target_hz[path]) > tolerance * target_hz[path]
    }
