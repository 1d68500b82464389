"""Active profiling: which mode to measure next, what was learnt, and which mode to take."""

from powertrain.profiling.history import History, Told
from powertrain.profiling.problem import Aim, Problem
from powertrain.profiling.session import Ask, Done, ProfilingSession

__all__ = ["Aim", "Ask", "Done", "History", "Problem", "ProfilingSession", "Told"]
