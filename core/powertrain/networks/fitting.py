"""Runs a recipe over a stack of networks: epochs of shuffled rows, and each network's best epoch in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from powertrain.networks.network import LAYER_SIZES, LAYERS
from powertrain.networks.recipe import Loss, Recipe
from powertrain.networks.stack import Adam, Dropout, Layers, Stack


@dataclass(frozen=True, eq=False)
class Rows:
    """What networks learn from: inputs (networks, rows, 4) and targets (networks, rows, 1)."""

    inputs: Any
    targets: Any

    def take(self, which: Any) -> Rows:
        """Return some rows, for every network the same."""
        return Rows(self.inputs[:, which], self.targets[:, which])


def fit(
    torch: Any, stack: Stack, training_rows: Rows, held_out: Rows, recipe: Recipe, random: np.random.Generator,
    report: Callable[[float], None],
) -> list[Layers]:  # fmt: skip
    """Train all networks of a stack; return each one's layers after its best epoch on the held-out rows."""
    networks = range(len(training_rows.inputs))
    epochs, finished_epochs = sum(phase.epochs for phase in recipe.phases), 0
    least, best = [float("inf") for _ in networks], [stack.layers(network) for network in networks]
    dropout = Dropout(torch, random, training_rows.inputs.shape[1], LAYER_SIZES[1:], recipe.dropout)
    for phase in recipe.phases:
        first = LAYERS - 1 if phase.head_only else 0
        adam = Adam(torch, stack, first, phase.learning_rate)
        for _ in range(phase.epochs):
            _epoch(torch, stack, training_rows, recipe, random, dropout, adam)
            losses = LOSSES[recipe.loss](stack.forward(held_out.inputs)[-1], held_out.targets)
            for network, now in enumerate(losses.tolist()):
                if now < least[network]:
                    least[network], best[network] = now, stack.layers(network)
            finished_epochs += 1
            report(finished_epochs / epochs)
    return best


def _epoch(
    torch: Any,
    stack: Stack,
    training_rows: Rows,
    recipe: Recipe,
    random: np.random.Generator,
    dropout: Dropout,
    adam: Adam,
) -> None:
    """Pass over all rows once, in a new order."""
    count, slope_of = training_rows.inputs.shape[1], SLOPES[recipe.loss]
    shuffled = training_rows.take(torch.from_numpy(random.permutation(count)))
    dropout.draw()
    for start in range(0, count, recipe.row_batch):
        batch = slice(start, start + recipe.row_batch)
        rows = shuffled.take(batch)
        active = stack.forward(rows.inputs, [mask[batch] for mask in dropout.masks])
        stack.backward(active, slope_of(active[-1], rows.targets), dropout.scales, adam.first)
        adam.step()


def _squared(predicted: Any, true: Any) -> Any:
    return (predicted - true).square_().mean((1, 2))


def _squared_slope(predicted: Any, true: Any) -> Any:
    return (predicted - true).mul_(2.0 / true.shape[1])


def _relative(predicted: Any, true: Any) -> Any:
    return ((predicted - true) / true).abs_().mean((1, 2))


def _relative_slope(predicted: Any, true: Any) -> Any:
    return (predicted - true).sign_().div_(true.abs() * true.shape[1])


# The loss of each network, and its slope by what the network gives for each row.
LOSSES: dict[Loss, Callable[[Any, Any], Any]] = {Loss.MSE: _squared, Loss.MAPE: _relative}
SLOPES: dict[Loss, Callable[[Any, Any], Any]] = {Loss.MSE: _squared_slope, Loss.MAPE: _relative_slope}
