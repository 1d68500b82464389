"""Descending plans: one batch of modes whose CPU and GPU clocks only fall, for boards that accept nothing else."""

from __future__ import annotations

import numpy as np

from powertrain.space import BoolArray, IntArray, ModeSpace


def descending_chain(space: ModeSpace, count: int, allowed: BoolArray, seed: int) -> IntArray:
    """Return up to `count` rows, highest first, that fall in CPU and GPU clock and spread over cores and memory clocks.

    The chain leaves the highest corner in a staircase, so that both clocks are seen high while the other is already
    low.
    """
    rng = np.random.default_rng(seed)
    chain: list[int] = []
    cpu_steps, gpu_steps = np.unique(space.matrix[allowed, 1]), np.unique(space.matrix[allowed, 2])
    if cpu_steps.size == 0:
        return np.zeros(0, dtype=np.int64)
    for cpu, gpu in _staircase(cpu_steps.size, gpu_steps.size, count):
        here = allowed & (space.matrix[:, 1] == cpu_steps[cpu]) & (space.matrix[:, 2] == gpu_steps[gpu])
        here[chain] = False
        options = np.flatnonzero(here)
        if options.size:
            chain.append(int(rng.choice(options)))
    return np.array(chain[:count], dtype=np.int64)


def _staircase(cpu_count: int, gpu_count: int, count: int) -> list[tuple[int, int]]:
    """Return positions from the highest to the lowest corner, in turns along one clock and then the other."""
    turns = max(2, round(np.sqrt(count)))
    corners_cpu = np.linspace(cpu_count - 1, 0, turns + 1)
    corners_gpu = np.linspace(gpu_count - 1, 0, turns + 1)
    per_leg = max(1, -(-count // (2 * turns)))
    positions: list[tuple[int, int]] = []
    for turn in range(turns):
        down_gpu = np.linspace(corners_gpu[turn], corners_gpu[turn + 1], per_leg, endpoint=False)
        positions += [(round(float(corners_cpu[turn])), round(float(gpu))) for gpu in down_gpu]
        down_cpu = np.linspace(corners_cpu[turn], corners_cpu[turn + 1], per_leg, endpoint=False)
        positions += [(round(float(cpu)), round(float(corners_gpu[turn + 1]))) for cpu in down_cpu]
    return [*positions, (0, 0)]
