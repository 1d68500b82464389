"""Remedies: the command that would fix a knob that does not work."""

from __future__ import annotations

import os
import re

from powertrain_agent.hardware.board import Board
from powertrain_agent.hardware.capability import Access, Capability
from powertrain_agent.mounts import DEBUGFS, MountFamily

_MISSING = {
    "cpu": "zcat /proc/config.gz | grep CPU_FREQ    # the kernel has no cpufreq driver for this board",
    "emc": "sudo mount -t debugfs none /sys/kernel/debug",
    "power": "sudo modprobe ina3221",
    "fan": "sudo systemctl status nvfancontrol    # a board without a fan needs nothing",
}
_REFUSED = {
    "cpu": "sudo nvpmodel -q && sudo jetson_clocks --show    # see who else sets clocks",
    "gpu": "sudo nvpmodel -q && sudo jetson_clocks --show    # see who else sets clocks",
    "emc": "sudo cat /sys/kernel/debug/bpmp/debug/emc/possible_rates    # rates not listed there are ignored",
    "fan": "sudo systemctl stop nvfancontrol",
    "cores": "dmesg | tail    # the kernel says why a core can't go offline",
}


def remedy(knob: str, healthy: bool, capability: Capability, board: Board, family: MountFamily) -> str:
    """Return a command, or an empty string where nothing is wrong or nothing can be done."""
    if knob == "tpc":
        gated = board.tpc_mask not in ("0", "unknown")
        return "sudo nvpmodel -m 0    # and reboot: parts of the GPU are off since boot" if gated else ""
    if healthy:
        return ""
    if capability.access is Access.MISSING:
        gate = re.search(r"(/\S+/railgate_enable)", capability.reason)
        return f"echo 0 | sudo tee {gate[1]}" if gate else _MISSING.get(knob, "")
    if capability.access is Access.READ_ONLY and capability.paths and knob in _REFUSED:
        if os.geteuid() != 0:
            return "sudo powertrain doctor"
        values = _chart_values(family, capability.paths)
        return f"helm upgrade … --set '{values}'    # the directories must be mounted writable"
    return _REFUSED.get(knob, "")


def _chart_values(family: MountFamily, paths: tuple[str, ...]) -> str:
    """Return what lets the chart mount these files writable."""
    values = [f"agent.families[0].name={family.name}"]
    if any(path.startswith(DEBUGFS) for path in paths):
        values.append("agent.emcDebugfs.enabled=true")
    return ",".join(values)
