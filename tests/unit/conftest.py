"""A made-up board and workloads, measured by formula, that several folders of tests share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from powertrain.physics.reference import PhysicsReference, fit_reference
from powertrain.samples import SampleTable
from powertrain.space import ModeSpace


@dataclass(frozen=True)
class Workload:
    """How much of each resource a step needs; the formulas are deliberately not those of powertrain.physics."""

    cpu: float = 12.0
    gpu: float = 26.0
    memory: float = 40.0
    roughness: float = 0.01

    def table(self, space: ModeSpace, batch_size: int = 16) -> SampleTable:
        """Measure every mode of a space."""
        cores, cpu, gpu, emc = (space.matrix / space.matrix.max(axis=0)).T
        host = self.cpu / (cpu * (0.35 + 0.65 * cores**0.6))
        device = np.hypot(self.gpu / gpu, self.memory * 0.4 / emc) + 2.0 / cpu
        step_ms = (host**4 + device**4) ** 0.25
        busy = device / step_ms
        power = 9.5 + 2.5 * emc + 9 * cores * cpu**2.2 * host / step_ms + 22 * gpu**1.7 * busy
        rough = 1.0 + self.roughness * np.sin(np.arange(len(space)) * np.array([[12.9898], [78.233]]))
        return SampleTable(
            space.matrix, np.full(len(space), batch_size, dtype=np.int64), step_ms / 1e3 * rough[0], power * rough[1]
        )


@pytest.fixture(scope="session")
def space() -> ModeSpace:
    """Return a board of 756 modes."""
    return ModeSpace.grid(
        [2, 4, 8, 12],
        [422400, 729600, 1036800, 1344000, 1651200, 1958400, 2201600],
        [114750000, 216750000, 318750000, 522750000, 726750000, 828750000, 930750000, 1134750000, 1300500000],
        [665600000, 2133000000, 3199000000],
    )


@pytest.fixture(scope="session")
def reference_table(space: ModeSpace) -> SampleTable:
    """Return the table of the reference workload."""
    return Workload().table(space)


@pytest.fixture(scope="session")
def target_table(space: ModeSpace) -> SampleTable:
    """Return the table of a lighter workload that the CPU holds back."""
    return Workload(cpu=7.0, gpu=8.0, memory=9.0).table(space)


@dataclass(frozen=True)
class PhysicsOnly:
    """A reference that holds the physics and no network."""

    physics: PhysicsReference


@pytest.fixture(scope="session")
def reference(reference_table: SampleTable) -> PhysicsOnly:
    """Return the physics learnt from the reference workload."""
    return PhysicsOnly(fit_reference(reference_table.matrix, reference_table.step_s, reference_table.power_w))


BATCH_SIZES = (1, 4, 16, 32, 64)


@pytest.fixture(scope="session")
def batch_table(space: ModeSpace) -> SampleTable:
    """Return every mode at five batch sizes: loading and kernels grow with the samples, launching does not."""
    parts = [_measured_at(space, size) for size in BATCH_SIZES]
    return SampleTable(
        np.vstack([space.matrix] * len(BATCH_SIZES)),
        np.repeat(np.array(BATCH_SIZES, dtype=np.int64), len(space)),
        np.concatenate([step_s for step_s, _ in parts]),
        np.concatenate([power_w for _, power_w in parts]),
    )


def _measured_at(space: ModeSpace, size: int) -> tuple[np.ndarray, np.ndarray]:
    cores, cpu, gpu, emc = (space.matrix / space.matrix.max(axis=0)).T
    host = 6.0 / cpu + 0.4 * size / (cpu * (0.35 + 0.65 * cores**0.6))
    device = np.hypot((2.0 + 1.1 * size) / gpu, (1.0 + 0.8 * size) / emc)
    step_ms = (host**4 + device**4) ** 0.25
    busy, filled = device / step_ms, size / (size + 3.0)
    power = 9.5 + 2.5 * emc + 7 * cores * cpu**2.2 * host / step_ms + gpu**1.7 * busy * (8 + 14 * filled)
    rough = 1.0 + 0.01 * np.sin((size + np.arange(len(space))) * np.array([[12.9898], [78.233]]))
    return step_ms / 1e3 * rough[0], power * rough[1]
