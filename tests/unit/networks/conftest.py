"""Two made-up workloads on one made-up board: the second is slower, and more of it waits for the CPU."""

from dataclasses import dataclass

import pytest

from powertrain.space import FloatArray, ModeSpace


@dataclass(frozen=True)
class Workload:
    """Step time and power of every mode of a small board."""

    space: ModeSpace
    step_s: FloatArray
    power_w: FloatArray


def workload(speed: float, cpu_share: float) -> Workload:
    space = ModeSpace.grid(
        [2, 4, 8, 12],
        [422400, 729600, 1190400, 1728000, 2201600],
        [114750000, 306000000, 510000000, 816000000, 1300500000],
        [665600000, 2133000000, 3199000000],
    )
    cores, cpu, gpu, emc = (space.matrix / space.matrix.max(axis=0)).T
    step_s = speed * (cpu_share / (cpu * cores**0.3) + (1 - cpu_share) / gpu + 0.1 / emc)
    power_w = 9 + 4 * emc + 10 * cores * cpu**2 + 25 * gpu**1.5
    return Workload(space, step_s, power_w)


@pytest.fixture(scope="session")
def known_workload() -> Workload:
    return workload(speed=0.05, cpu_share=0.3)


@pytest.fixture(scope="session")
def new() -> Workload:
    return workload(speed=0.12, cpu_share=0.5)
