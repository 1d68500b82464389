"""Sharing a site's watts among its boards: pure functions from fronts and work left to a share per board."""

from __future__ import annotations

from powertrain.sharing.demand import Demand, Goal
from powertrain.sharing.shares import share
from powertrain.sharing.shares_by_bounds import equal, proportional
from powertrain.sharing.timing import ends_s, makespan_s, relative_speed, speed_at, throughput

__all__ = [
    "Demand",
    "Goal",
    "ends_s",
    "equal",
    "makespan_s",
    "proportional",
    "relative_speed",
    "share",
    "speed_at",
    "throughput",
]
