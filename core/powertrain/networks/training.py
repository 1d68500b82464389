"""Trains the papers' networks with torch: from scratch, or by transfer from a reference's networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from powertrain.networks.fitting import Rows, fit
from powertrain.networks.network import LAYER_SIZES, LEAST_SHARE, Network, NetworkPair, WeightArray
from powertrain.networks.recipe import FEW_MODES_RECIPE, TRANSFER_RECIPE, Recipe
from powertrain.networks.stack import Layers, fresh_layers, stacked
from powertrain.space import FloatArray, IntArray

FEWEST_MODES = 2  # one mode has no spread to scale by
NAMES = ("time", "power")

Report = Callable[[str, float], None]  # what is trained ("time", "power"), share done


def _silent(name: str, share: float) -> None:
    """Report nothing."""


class TorchMissingError(RuntimeError):
    """Torch is not installed; the message says how to get it."""


def train_pair(
    modes: FloatArray,
    step_s: FloatArray,
    power_w: FloatArray,
    seed: int,
    recipe: Recipe = FEW_MODES_RECIPE,
    report: Report = _silent,
) -> NetworkPair:
    """Train both networks from scratch. Same data, recipe and seed: same weights (on one machine)."""
    return _pair(None, modes, step_s, power_w, seed, recipe, report)


def transfer_pair(
    reference: NetworkPair,
    modes: FloatArray,
    step_s: FloatArray,
    power_w: FloatArray,
    seed: int,
    recipe: Recipe = TRANSFER_RECIPE,
    report: Report = _silent,
) -> NetworkPair:
    """Give the reference's networks a fresh last layer each and fine-tune them on the new workload's samples."""
    return _pair(reference, modes, step_s, power_w, seed, recipe, report)


def _pair(
    reference: NetworkPair | None,
    modes: FloatArray,
    step_s: FloatArray,
    power_w: FloatArray,
    seed: int,
    recipe: Recipe,
    report: Report,
) -> NetworkPair:
    if len(modes) < FEWEST_MODES:
        raise ValueError(f"a network needs at least {FEWEST_MODES} measured modes, not {len(modes)}")
    parents = (None, None) if reference is None else (reference.time, reference.power)
    tasks = [
        _Task.of(parent, modes, target, recipe) for parent, target in zip(parents, (step_s * 1e3, power_w), strict=True)
    ]
    training_rows, held_out = _split(len(modes), seed, recipe)
    random = np.random.default_rng([seed, 1])  # another stream than the split's

    def both(share: float) -> None:
        for name in NAMES:
            report(name, share)

    with _torch() as torch:
        stack = stacked(torch, fresh_layers(random, LAYER_SIZES), parents)
        inputs = torch.tensor(np.stack([task.inputs(modes) for task in tasks]))
        targets = torch.tensor(np.stack([task.scaled_target() for task in tasks]))
        rows = Rows(inputs, targets)
        trained = fit(torch, stack, rows.take(training_rows), rows.take(held_out), recipe, random, both)
    return NetworkPair(*(task.network(modes, layers, held_out) for task, layers in zip(tasks, trained, strict=True)))


@contextmanager
def _torch() -> Iterator[Any]:
    """Give torch with one thread and no recording of gradients, and leave the process's own settings as they were."""
    try:
        import torch
    except ImportError:
        raise TorchMissingError("torch is not installed: pip install '.[nn]' in a checkout") from None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield torch
    finally:
        torch.set_num_threads(threads)


def _split(modes: int, seed: int, recipe: Recipe) -> tuple[IntArray, IntArray]:
    """Return the indices of the rows to learn from and of the held-out ones."""
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(modes), recipe.row_repeats))
    count = max(1, round(recipe.validation_share * len(order)))
    return order[count:], order[:count]


@dataclass(frozen=True, eq=False)
class _Task:
    """What one network learns, and the scales of its inputs and its target."""

    target: FloatArray
    mean: FloatArray
    scale: FloatArray
    factor: float

    @classmethod
    def of(cls, parent: Network | None, modes: FloatArray, target: FloatArray, recipe: Recipe) -> _Task:
        """Scale by the parent's figures, without one by the modes' own."""
        if parent is None:
            spread = modes.std(axis=0)
            return cls(target, modes.mean(axis=0), np.where(spread > 0, spread, 1.0), 1.0)
        factor = float(target.mean()) / parent.target_mean if recipe.rescale else 1.0
        return cls(target, parent.input_mean, parent.input_scale, factor)

    def inputs(self, modes: FloatArray) -> WeightArray:
        """Return the standardised inputs of modes."""
        return ((modes - self.mean) / self.scale).astype(np.float32)

    def scaled_target(self) -> WeightArray:
        """Return what the network is to give for each mode, as a column."""
        return (self.target / self.factor).astype(np.float32)[:, None]

    def network(self, modes: FloatArray, layers: Layers, held_out: IntArray) -> Network:
        """Return the trained network with its error on the held-out rows."""
        figures = (self.factor, float(self.target.mean()) / self.factor, LEAST_SHARE * float(self.target.min()))
        network = Network(self.mean, self.scale, *layers, *figures, residual=0.0, validation_mape_pct=0.0)
        relative = network.predict(modes[held_out]) / self.target[held_out] - 1.0
        residual, mape_pct = float(np.sqrt(np.mean(relative**2))), 100.0 * float(np.mean(np.abs(relative)))
        return replace(network, residual=residual, validation_mape_pct=mape_pct)
