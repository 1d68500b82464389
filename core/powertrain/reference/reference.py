"""Reference: one workload's physics and networks behind a card; trained, loaded, or made lazily from a table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from powertrain.networks import NetworkPair, train_pair
from powertrain.networks.recipe import reference_recipe
from powertrain.physics import PhysicsReference, fit_reference
from powertrain.reference.cache import cached_network, default_directory
from powertrain.reference.card import ModelErrors, ReferenceCard, ReferenceError
from powertrain.reference.files import (
    NETWORK_FILE,
    PHYSICS_FILE,
    read_network,
    read_physics,
    write_network,
    write_physics,
)
from powertrain.samples import SampleTable

# Below this the physics has more parameters than samples.
FEWEST_ROWS = 30

Part = TypeVar("Part")
Report = Callable[[str, float], None]  # part that is trained, share done


def _silent(part: str, share: float) -> None:
    """Report nothing."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A reference. Its parts are made on first use and kept; `make_network` is None for one without networks.

    It can be pickled to another process (the makers are partials of functions), so an evaluation can run in parallel.
    """

    card: ReferenceCard
    make_physics: Callable[[], PhysicsReference]
    make_network: Callable[[], NetworkPair] | None = None

    @cached_property
    def physics(self) -> PhysicsReference:
        """Return the fitted physics, the prior of the default strategy."""
        return self.make_physics()

    @property
    def has_network(self) -> bool:
        """Say whether `network()` can give networks."""
        return self.make_network is not None

    def network(self) -> NetworkPair:
        """Return the trained networks, or say how to make them."""
        return self._network

    @cached_property
    def _network(self) -> NetworkPair:
        if self.make_network is None:
            raise ReferenceError(
                f"reference {self.card.name!r} has no networks; make them with: powertrain reference train DATA.csv"
                f" --device {self.card.device} --workload {self.card.workload} --out DIR (without --no-network)"
            )
        return self.make_network()

    @classmethod
    def from_table(
        cls, table: SampleTable, device: str | None, workload: str, seed: int = 0, cache: Path | None = None
    ) -> Reference:
        """Return a reference whose parts are trained when first used; its networks are kept in the cache folder."""
        rows = _checked(table, workload)
        sha = _data_sha256(rows)
        directory = default_directory() if cache is None else cache
        return cls(
            ReferenceCard.of_table(rows, device, workload, seed, sha),
            partial(fit_reference, rows.matrix, rows.step_s, rows.power_w),
            partial(cached_network, directory, sha, seed, partial(_train_network, rows, seed, _silent)),
        )

    def fitted_to(self, table: SampleTable) -> bool:
        """Say whether it was made from this very table: then its errors there are a self-fit, not a prediction."""
        return self.card.data_sha256 == _data_sha256(_ordered(table))

    def save(self, directory: Path) -> None:
        """Write the reference into a folder: card, physics and, if it has them, networks. The card comes last."""
        directory.mkdir(parents=True, exist_ok=True)
        write_physics(directory / PHYSICS_FILE, self.physics)
        if self.has_network:
            write_network(directory / NETWORK_FILE, self.network())
        else:
            (directory / NETWORK_FILE).unlink(missing_ok=True)
        self.card.write(directory)


def load(directory: Path) -> Reference:
    """Read a reference from its folder; the arrays are read on first use."""
    card = ReferenceCard.read(directory)
    for part, file in ((card.physics, PHYSICS_FILE), (card.network, NETWORK_FILE)):
        if part is not None and not (directory / file).is_file():
            raise ReferenceError(f"{directory / file}: is missing; train the reference again")
    network = None if card.network is None else partial(read_network, directory / NETWORK_FILE)
    return Reference(card, partial(read_physics, directory / PHYSICS_FILE), network)


def train_reference(
    table: SampleTable,
    device: str | None,
    workload: str,
    seed: int = 0,
    with_network: bool = True,
    notes: str = "",
    report: Report = _silent,
) -> Reference:
    """Train a reference now, and say in its card how well it came out."""
    rows = _checked(table, workload)
    card = ReferenceCard.of_table(rows, device, workload, seed, _data_sha256(rows))
    report("physics", 0.0)
    physics = fit_reference(rows.matrix, rows.step_s, rows.power_w)
    report("physics", 1.0)
    pair = _train_network(rows, seed, report) if with_network else None
    card = card.model_copy(
        update={
            "notes": notes,
            "physics": ModelErrors(
                time_mape_pct=round(float(physics.mape_pct[0]), 3),
                power_mape_pct=round(float(physics.mape_pct[1]), 3),
                over="all rows",
            ),
        }
    )
    if pair is None:
        return Reference(card, partial(_ready, physics))
    update = {"network": _network_errors(pair), "created_with": card.created_with | {"torch": _torch_version()}}
    return Reference(card.model_copy(update=update), partial(_ready, physics), partial(_ready, pair))


def _ready(part: Part) -> Part:
    return part


def _network_errors(pair: NetworkPair) -> ModelErrors:
    return ModelErrors(
        time_mape_pct=round(pair.time.validation_mape_pct, 3),
        power_mape_pct=round(pair.power.validation_mape_pct, 3),
        over="the 10 % of rows held out",
    )


def _torch_version() -> str:
    from importlib.metadata import version

    return version("torch").split("+", maxsplit=1)[0]


def _train_network(rows: SampleTable, seed: int, report: Report) -> NetworkPair:
    recipe = reference_recipe(len(rows))
    return train_pair(rows.matrix, rows.step_s, rows.power_w, seed, recipe, report)


def _checked(table: SampleTable, workload: str) -> SampleTable:
    """Return the table, if a reference can be made from it, in an order that does not depend on the file's."""
    if len(table.batch_sizes()) != 1:
        raise ReferenceError(
            f"a reference is of one batch size, the table of {workload!r} has {table.batch_sizes()}; choose one"
        )
    if len(table) < FEWEST_ROWS:
        raise ReferenceError(
            f"a reference needs at least {FEWEST_ROWS} modes, the table of {workload!r} has {len(table)}"
        )
    return _ordered(table)


def _ordered(table: SampleTable) -> SampleTable:
    return table.take(np.lexsort(table.matrix.T[::-1]))


def _data_sha256(rows: SampleTable) -> str:
    digest = hashlib.sha256()
    for column in (rows.matrix, rows.batch_size.astype(np.float64), rows.step_s, rows.power_w):
        digest.update(np.ascontiguousarray(column, dtype="<f8").tobytes())
    return digest.hexdigest()
