"""A Jetson without hardware: a file tree that follows the kernel's rules, and workloads that take time and power."""

from pathlib import Path

from powertrain_agent.simulate.board import SimulatedBoard
from powertrain_agent.simulate.clock import ManualClock
from powertrain_agent.simulate.faults import Fault, FaultKind
from powertrain_agent.simulate.simulated_sysfs import SimulatedSysfs
from powertrain_agent.sysfs import Sysfs

__all__ = ["Fault", "FaultKind", "ManualClock", "SimulatedBoard", "SimulatedSysfs", "open_port"]


def open_port(root: Path, time_scale: float = 1.0) -> Sysfs:
    """Return the port to whatever a host root is: a simulated board's directory, or the files of a real host."""
    return SimulatedSysfs(root, time_scale=time_scale) if SimulatedBoard.exists(root) else Sysfs(root)
