"""A made-up measured table, and the reference of its physics alone (no torch)."""

import os
from pathlib import Path

import numpy as np
import pytest

from powertrain.networks import Network, NetworkPair
from powertrain.networks.network import LAYER_SIZES
from powertrain.reference import Reference, train_reference
from powertrain.samples import SampleTable
from powertrain.space import ModeSpace


def made_up_table(cpu_share: float = 0.3, batch_size: int = 16) -> SampleTable:
    space = ModeSpace.grid(
        [2, 4, 8, 12],
        [422400, 1190400, 2201600],
        [114750000, 510000000, 1300500000],
        [665600000, 2133000000, 3199000000],
    )
    cores, cpu, gpu, emc = (space.matrix / space.matrix.max(axis=0)).T
    return SampleTable(
        matrix=space.matrix,
        batch_size=np.full(len(space), batch_size),
        step_s=0.05 * (cpu_share / (cpu * cores**0.3) + (1 - cpu_share) / gpu + 0.1 / emc),
        power_w=9 + 4 * emc + 10 * cores * cpu**2 + 25 * gpu**1.5,
    )


def made_up_network(seed: int = 0) -> NetworkPair:
    """Return networks with random weights: files do not care whether they learned anything."""
    random = np.random.default_rng(seed)

    def one() -> Network:
        shapes = list(zip(LAYER_SIZES[1:], LAYER_SIZES[:-1], strict=True))
        weights = tuple(random.normal(size=shape).astype(np.float32) for shape in shapes)
        biases = tuple(random.normal(size=shape[0]).astype(np.float32) for shape in shapes)
        return Network(np.ones(4), np.ones(4), weights, biases, 1.0, 20.0, 0.1, 0.05, 4.0)

    return NetworkPair(one(), one())


@pytest.fixture(scope="session")
def table() -> SampleTable:
    return made_up_table()


@pytest.fixture(scope="session")
def physics_only(table: SampleTable) -> Reference:
    return train_reference(table, "orin-agx", "made-up", seed=0, with_network=False)


@pytest.fixture
def measured_lstm() -> Path:
    """Return the measured LSTM table, which is not part of this repository."""
    folder = Path(os.environ.get("POWERTRAIN_DATA", Path(__file__).parents[3].parent / "shared" / "data"))
    path = folder / "orin-agx.train.lstm.csv"
    if not path.exists():
        pytest.skip(f"the measured tables are not here: {path} (set POWERTRAIN_DATA to their folder)")
    return path
