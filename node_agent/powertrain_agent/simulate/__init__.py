"""A Jetson without hardware: a file tree that follows the kernel's rules, and workloads that take time and power."""

from powertrain_agent.simulate.board import SimulatedBoard
from powertrain_agent.simulate.clock import ManualClock
from powertrain_agent.simulate.faults import Fault, FaultKind
from powertrain_agent.simulate.kernel import SimulatedSysfs

__all__ = ["Fault", "FaultKind", "ManualClock", "SimulatedBoard", "SimulatedSysfs"]
