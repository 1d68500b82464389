"""What every strategy builds on: problem, measurements, belief, safety, and the worth of a measurement."""

from powertrain.profiling.history import History, ModeReport
from powertrain.profiling.problem import Aim, Caution, Problem

__all__ = ["Aim", "Caution", "History", "ModeReport", "Problem"]
