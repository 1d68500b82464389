"""Trains the papers' networks with torch: from scratch, or by transfer from a reference's networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from powertrain.networks.network import LAYER_SIZES, LEAST_SHARE, Network, NetworkPair
from powertrain.networks.recipe import FEW_MODES_RECIPE, TRANSFER_RECIPE, Loss, Phase, Recipe
from powertrain.space import FloatArray, IntArray

FEWEST_MODES = 2  # one mode has no spread to scale by

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
    trained = []
    for name, parent, target in zip(("time", "power"), parents, (step_s * 1e3, power_w), strict=True):
        training = _Training(parent, modes, target, seed, recipe)
        trained.append(training.run(partial(report, name)))
    return NetworkPair(*trained)


@contextmanager
def _torch(seed: int) -> Iterator[Any]:
    """Give torch with a seeded generator and one thread, and leave the process's own settings as they were."""
    try:
        import torch
    except ImportError:
        raise TorchMissingError("torch is not installed: pip install 'powertrain-operator[nn]'") from None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield torch
    finally:
        torch.set_num_threads(threads)


@dataclass
class _Training:
    """One network's training: its data, and the parent whose hidden layers it starts from (None: from scratch)."""

    parent: Network | None
    modes: FloatArray
    target: FloatArray
    seed: int
    recipe: Recipe

    def run(self, report: Callable[[float], None]) -> Network:
        """Train and return the network with the least validation loss."""
        if self.parent is None:
            mean, spread = self.modes.mean(axis=0), self.modes.std(axis=0)
            scale = np.where(spread > 0, spread, 1.0)
        else:
            mean, scale = self.parent.input_mean, self.parent.input_scale
        factor = 1.0
        if self.recipe.rescale and self.parent is not None:
            factor = float(self.target.mean()) / self.parent.target_mean
        fit, held_out = self._split()
        with _torch(self.seed) as torch:
            model = _model(torch, self.recipe.dropout)
            if self.parent is not None:
                _copy_hidden_layers(torch, self.parent, model)
            inputs = torch.tensor((self.modes - mean) / scale, dtype=torch.float32)
            targets = torch.tensor(self.target / factor, dtype=torch.float32)[:, None]
            _fit(torch, model, (inputs[fit], targets[fit]), (inputs[held_out], targets[held_out]), self.recipe, report)
            linear = [layer for layer in model if isinstance(layer, torch.nn.Linear)]
            weights = tuple(layer.weight.detach().numpy().copy() for layer in linear)
            biases = tuple(layer.bias.detach().numpy().copy() for layer in linear)
        figures = (factor, float(self.target.mean()) / factor, LEAST_SHARE * float(self.target.min()))
        network = Network(mean, scale, weights, biases, *figures, residual=0.0, validation_mape_pct=0.0)
        return self._with_errors(network, held_out)

    def _split(self) -> tuple[IntArray, IntArray]:
        """Return the indices of the rows to learn from and of the held-out ones."""
        rows = np.repeat(np.arange(len(self.modes)), self.recipe.row_repeats)
        order = np.random.default_rng(self.seed).permutation(rows)
        count = max(1, round(self.recipe.validation_share * len(order)))
        return order[count:], order[:count]

    def _with_errors(self, network: Network, held_out: IntArray) -> Network:
        relative = network.predict(self.modes[held_out]) / self.target[held_out] - 1.0
        residual, mape_pct = float(np.sqrt(np.mean(relative**2))), 100.0 * float(np.mean(np.abs(relative)))
        return replace(network, residual=residual, validation_mape_pct=mape_pct)


def _model(torch: Any, dropout: tuple[float, float]) -> Any:
    nn, sizes = torch.nn, LAYER_SIZES
    return nn.Sequential(
        nn.Linear(sizes[0], sizes[1]),
        nn.ReLU(),
        nn.Dropout(dropout[0]),
        nn.Linear(sizes[1], sizes[2]),
        nn.ReLU(),
        nn.Dropout(dropout[1]),
        nn.Linear(sizes[2], sizes[3]),
        nn.ReLU(),
        nn.Linear(sizes[3], sizes[4]),
    )


def _copy_hidden_layers(torch: Any, parent: Network, model: Any) -> None:
    linear = [layer for layer in model if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        for layer, weight, bias in zip(linear[:-1], parent.weights[:-1], parent.biases[:-1], strict=True):
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.copy_(torch.tensor(bias))


def _fit(
    torch: Any,
    model: Any,
    fit: tuple[Any, Any],
    held_out: tuple[Any, Any],
    recipe: Recipe,
    report: Callable[[float], None],
) -> None:
    """Run the phases; the model ends with the weights of its best epoch on the held-out rows."""
    loss = _LOSSES[recipe.loss]
    epochs, done = sum(phase.epochs for phase in recipe.phases), 0
    least, best = float("inf"), model.state_dict()
    for phase in recipe.phases:
        optimizer = _optimizer(torch, model, phase)
        for _ in range(phase.epochs):
            model.train()
            for rows in torch.randperm(len(fit[0])).split(recipe.row_batch):
                optimizer.zero_grad()
                loss(model(fit[0][rows]), fit[1][rows]).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                now = float(loss(model(held_out[0]), held_out[1]))
            if now < least:
                least, best = now, {name: value.clone() for name, value in model.state_dict().items()}
            done += 1
            report(done / epochs)
    model.load_state_dict(best)


def _optimizer(torch: Any, model: Any, phase: Phase) -> Any:
    parameters = model[-1].parameters() if phase.head_only else model.parameters()
    return torch.optim.Adam(parameters, lr=phase.learning_rate)


_LOSSES: dict[Loss, Callable[[Any, Any], Any]] = {
    Loss.MSE: lambda predicted, true: ((predicted - true) ** 2).mean(),
    Loss.MAPE: lambda predicted, true: ((predicted - true) / true).abs().mean(),
}
