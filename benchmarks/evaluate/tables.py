"""The tables of the study: measured ones where they are at hand, simulated ones for every workload and board."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from powertrain import devices
from powertrain.reference import Reference, shipped
from powertrain.sample_csv import read_csv
from powertrain.samples import Sample, SampleTable
from powertrain.space import ModeSpace
from powertrain_agent.simulate import workloads

# name → file and batch size (None: the file's only one)
MEASURED = {
    "resnet18": ("orin-agx.train.resnet.csv", None),
    "lstm": ("orin-agx.train.lstm.csv", None),
    "resnet18-inference:1": ("orin-agx.infer.resnet.csv", 1),
    "resnet18-inference:32": ("orin-agx.infer.resnet.csv", 32),
    "lstm-inference:1": ("orin-agx.infer.lstm.csv", 1),
    "lstm-inference:32": ("orin-agx.infer.lstm.csv", 32),
}
SIMULATED = "sim"
SHIPPED = "shipped"
# The papers' samples of a board's modes: all of the grid that they profiled, or so many random ones.
RANDOM_MODES = {"xavier-agx": 1000}
NETWORKS = ("powertrain", "powertrain-head-first")


class TableMissingError(FileNotFoundError):
    """A measured table that is not here; the message says how to bring one."""


@dataclass(frozen=True)
class Store:
    """Where measured tables are read from and trained references are kept."""

    data: Path
    references: Path

    def missing(self, name: str) -> str | None:
        """Return the file that a table or reference needs and that is not here; None if it can be had."""
        source = name.split("#", maxsplit=1)[0]
        if source not in MEASURED:
            return None
        file, _ = MEASURED[source]
        return None if (self.data / file).is_file() else file

    def table(self, name: str) -> SampleTable:
        """Return a table by its name: a measured one, or sim:BOARD:WORKLOAD:BATCH."""
        if name.startswith(SIMULATED):
            _, board, workload, batch_size = name.split(":")
            return simulated(board, workload, int(batch_size))
        missing = self.missing(name)
        if missing is not None:
            raise TableMissingError(f"{self.data / missing}: no such table; bring your own with --data")
        file, batch_size = MEASURED[name]
        whole_table = read_csv(self.data / file)
        return whole_table if batch_size is None else whole_table.at_batch_size(batch_size)

    def reference(self, name: str) -> Reference:
        """Return a reference by its name: the shipped one, that of a table, or of NAME#ROWS random rows of it."""
        return _reference(self, name)

    def digest(self, name: str) -> str:
        """Return a hash of a table's numbers."""
        table = self.table(name)
        digest = hashlib.sha256()
        for column in (table.matrix, table.step_s, table.power_w):
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()


@cache
def _reference(store: Store, name: str) -> Reference:
    """Return a reference; kept, because its physics is fitted on first use and many cells start from the same one."""
    if name == SHIPPED:
        return shipped()
    source, _, rows = name.partition("#")
    table = store.table(source)
    if rows:
        table = table.take(np.random.default_rng(0).permutation(len(table))[: int(rows)])
    return Reference.from_table(table, board_of(source), source, cache=store.references)


def board_of(name: str) -> str:
    """Return the board of a table."""
    return name.split(":")[1] if name.startswith(SIMULATED) else "orin-agx"


def origin(name: str) -> str:
    """Say whether a table was measured or simulated."""
    return "simulated" if name.startswith(SIMULATED) else "measured"


def descent(name: str) -> str:
    """Return the measured table that a table goes back to, as a simulated ResNet or LSTM does; else its own name.

    The other simulated workloads were set by hand; what they share with the measured ones is said on the pages.
    """
    if not name.startswith(SIMULATED):
        return name
    workload = name.split(":")[2]
    return workload if workload in MEASURED else name


@cache
def simulated(board: str, workload: str, batch_size: int) -> SampleTable:
    """Return the agent's simulator at the modes that the papers profile on this board."""
    points = ((mode, workloads.evaluate(board, workload, batch_size, mode)) for mode in _modes(board))
    return SampleTable.of(Sample(mode, point.step_s, point.power_w, batch_size) for mode, point in points)


def _modes(board: str) -> ModeSpace:
    device = devices.get(board)
    if board in RANDOM_MODES:
        space = device.space()
        picked = np.random.default_rng(0).permutation(len(space))[: RANDOM_MODES[board]]
        return ModeSpace.covering(space.matrix[np.sort(picked)])
    profiled = device.profiled_space()
    if profiled is None:
        raise ValueError(f"the papers profiled no grid of {board}; say in RANDOM_MODES how many modes to take")
    return profiled
