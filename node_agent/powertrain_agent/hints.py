"""Hints: what a board's readings say about its firmware and its supply, beyond whether knobs work."""

from __future__ import annotations

from collections.abc import Mapping

from powertrain_agent.hardware.board import Board

# An Orin Nano's GPU goes so far with firmware from before the Super configuration (R36.4), and to 1020 MHz after it.
OLD_FIRMWARE_TOP_HZ = 624_750_000
# A 5 V input below this is outside of what the modules are specified for.
LOWEST_5V = 4.75
_UNDER_VOLTAGE = "oc1"


def hints(board: Board, supply_v: float | None, events: Mapping[str, int]) -> tuple[str, ...]:
    """Return what to look at, each with what to do about it."""
    return tuple(filter(None, (_firmware(board), _alarms(events), _low_voltage(supply_v), _mask(board))))


def _firmware(board: Board) -> str:
    table = board.gpu.table_hz if board.gpu else ()
    if "super" not in board.identity.model.lower() or not table or table[-1] > OLD_FIRMWARE_TOP_HZ:
        return ""
    return (
        f"the board calls itself Super, but its GPU table ends at {table[-1] / 1e6:g} MHz: the firmware (BPMP) is "
        "older than L4T 36.4. Update the firmware in QSPI, then boot again"
    )


def _alarms(events: Mapping[str, int]) -> str:
    low, high = events.get(_UNDER_VOLTAGE, 0), sum(n for name, n in events.items() if name != _UNDER_VOLTAGE)
    if low:
        return (
            f"{low} under-voltage events since boot: the supply's voltage falls under load. Use a stronger supply or a "
            "shorter cable, or limit the current with constraints.hardLimitAmps"
        )
    if high:
        return (
            f"{high} over-current events since boot: the board has slowed itself down. Limit the current with "
            "constraints.hardLimitAmps or the power with powerWatts"
        )
    return ""


def _low_voltage(supply_v: float | None) -> str:
    if supply_v is None or not 3.0 < supply_v < LOWEST_5V:
        return ""
    return f"the input is at {supply_v:.2f} V, below {LOWEST_5V} V: use a stronger supply or a shorter cable"


def _mask(board: Board) -> str:
    """Presets of which masks a reboot separates, where the catalogue knows them."""
    presets = board.device.presets if board.device else ()
    current = [preset.name for preset in presets if str(preset.gpu_mask) == board.tpc_mask]
    others = [preset.name for preset in presets if preset.gpu_mask is not None and preset.name not in current]
    if not current or not others:
        return ""
    return (
        f"the GPU's mask is that of {', '.join(current)}: nvpmodel asks for a reboot to change to {', '.join(others)}"
    )
