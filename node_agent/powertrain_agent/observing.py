"""An agent that only observes: what it refuses to do, and what it predicts for the load that it sees."""

from __future__ import annotations

from powertrain.expected_gain import ExpectedGain, expected_gain
from powertrain.space import ModeSpace
from powertrain_agent.hardware.board import Board, discover
from powertrain_agent.hardware.files import number
from powertrain_agent.sysfs import Sysfs

# A GPU that is less busy than this (per mille) trains nothing.
BUSY = 100
REASON = "the agent only observes this board (agent.mode: Observe, or --observe)"


def possible_modes(board: Board) -> ModeSpace:
    """Return the modes that the board has, also those that this agent may not set; cores stay as they are."""
    now = board.present_mode
    return ModeSpace.grid(
        [now.cores],
        list(board.cpu.table_khz) or [now.cpu_khz],
        list(board.gpu.table_hz) if board.gpu and board.gpu.table_hz else [now.gpu_hz],
        list(board.emc.table_hz) if board.emc and board.emc.table_hz else [now.emc_hz],
    )


def gain_of_running_load(sysfs: Sysfs, board: Board) -> ExpectedGain | None:
    """Return what the shipped reference predicts for what the GPU does now; None while it idles."""
    if board.gpu is None or (number(sysfs, f"{board.gpu.device_path}/load") or 0) < BUSY:
        return None
    from powertrain.reference import closest, shipped  # an agent that steers has its planner load it

    present = discover(sysfs)  # the clocks as they are now
    return expected_gain(closest([shipped()], board.name).physics, possible_modes(board), present.present_mode)
