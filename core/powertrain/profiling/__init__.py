"""What every strategy builds on: problem, measurements, belief, safety, and the worth of a measurement."""

from powertrain.profiling.history import History, Told
from powertrain.profiling.problem import Aim, Problem

__all__ = ["Aim", "History", "Problem", "Told"]
