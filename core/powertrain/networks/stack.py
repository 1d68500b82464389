"""Stack: networks of one shape side by side, each layer one batched product, with gradients and Adam.

The networks are so small that calls cost more than arithmetic. So networks that learn from the same rows take each step
together, the gradients of the four layers are written out instead of recorded, and all parameters lie in one array,
which the optimizer passes over once. Dropout draws two bytes a unit from numpy; torch's own draws take longer than the
products.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from powertrain.networks.network import LAYERS, Network, WeightArray

Layers = tuple[tuple[WeightArray, ...], tuple[WeightArray, ...]]  # weights and biases

BYTE_PAIRS = 1 << 16
FUSED_SINCE = (2, 4)  # the version of torch from which Adam's single pass runs on processors
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's usual ones


class Stack:
    """The parameters of some networks in one array, and their gradients in another: layer after layer, the head last.

    Weights have the shape (networks, inputs, outputs), biases (networks, 1, outputs).
    """

    def __init__(self, torch: Any, weights: Sequence[WeightArray], biases: Sequence[WeightArray]) -> None:
        self._torch = torch
        parts = [part for layer in zip(weights, biases, strict=True) for part in layer]
        self.parameters = torch.tensor(np.concatenate([part.ravel() for part in parts]))
        self.gradients = torch.zeros_like(self.parameters)
        ends = np.cumsum([part.size for part in parts])
        self._starts = [int(end) - part.size for end, part in zip(ends, parts, strict=True)]
        shapes = [part.shape for part in parts]
        values, slopes = (self._views(array, shapes) for array in (self.parameters, self.gradients))
        self._weights, self._biases = values[0::2], values[1::2]
        self._weight_slopes, self._bias_slopes = slopes[0::2], slopes[1::2]

    def _views(self, array: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        sizes = [int(np.prod(shape)) for shape in shapes]
        return [part.view(shape) for part, shape in zip(array.split(sizes), shapes, strict=True)]

    def start(self, layer: int) -> int:
        """Return where a layer's parameters begin; those of later layers follow."""
        return self._starts[2 * layer]

    def forward(self, inputs: Any, masks: Sequence[Any] = ()) -> list[Any]:
        """Return the inputs and what each layer makes of them; the first hidden layers are multiplied with `masks`."""
        active = [inputs]
        for layer in range(LAYERS):
            now = self._torch.baddbmm(self._biases[layer], active[-1], self._weights[layer])
            if layer < LAYERS - 1:
                now.clamp_min_(0.0)
            if layer < len(masks):
                now.mul_(masks[layer])
            active.append(now)
        return active

    def backward(self, active: Sequence[Any], slope: Any, scales: Sequence[float] = (), first: int = 0) -> None:
        """Fill in the gradients of all layers from `first` on; `slope` is the loss's, by the networks' outputs.

        `scales` has the one value besides zero of each mask: a unit passes its slope on only if it was above zero.
        """
        torch = self._torch
        for layer in reversed(range(first, LAYERS)):
            torch.sum(slope, 1, keepdim=True, out=self._bias_slopes[layer])
            torch.bmm(active[layer].transpose(1, 2), slope, out=self._weight_slopes[layer])
            if layer > first:
                slope = torch.bmm(slope, self._weights[layer].transpose(1, 2))
                slope = torch.ops.aten.threshold_backward(slope, active[layer], 0.0)
                if layer <= len(scales):
                    slope.mul_(scales[layer - 1])

    def layers(self, network: int) -> Layers:
        """Return one network's weights, of the shape (outputs, inputs), and its biases."""
        weights = tuple(part[network].numpy().T.copy() for part in self._weights)
        return weights, tuple(part[network, 0].numpy().copy() for part in self._biases)


def fresh_layers(random: np.random.Generator, sizes: Sequence[int]) -> tuple[list[WeightArray], list[WeightArray]]:
    """Return one network's layers at random, (inputs, outputs): uniform within 1/√inputs, torch's default."""
    weights, biases = [], []
    for inputs, outputs in pairwise(sizes):
        bound = inputs**-0.5
        weights.append(random.uniform(-bound, bound, (inputs, outputs)).astype(np.float32))
        biases.append(random.uniform(-bound, bound, (1, outputs)).astype(np.float32))
    return weights, biases


def stacked(
    torch: Any,
    fresh: tuple[list[WeightArray], list[WeightArray]],
    parents: Sequence[Network | None],
) -> Stack:
    """Return a network for each parent with its hidden layers and a fresh head; all layers are fresh without one."""
    weights, biases = [], []
    for layer, (weight, bias) in enumerate(zip(*fresh, strict=True)):
        head = layer == LAYERS - 1
        weights.append(np.stack([weight if p is None or head else p.weights[layer].T for p in parents]))
        biases.append(np.stack([bias if p is None or head else p.biases[layer][None] for p in parents]))
    return Stack(torch, weights, biases)


class Adam:
    """Adam over a stack's parameters, from layer `first` on."""

    def __init__(self, torch: Any, stack: Stack, first: int, learning_rate: float) -> None:
        from torch.optim.adam import adam  # the function: the class spends more on its hooks than this takes

        self.first = first
        start = stack.start(first)
        self._parameters, self._gradients = stack.parameters[start:], stack.gradients[start:]
        self._mean, self._square = torch.zeros_like(self._parameters), torch.zeros_like(self._parameters)
        self._steps = torch.tensor(0.0)
        self._rate = learning_rate
        self._fused = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= FUSED_SINCE
        self._adam = adam

    def step(self) -> None:
        """Move the parameters against their gradients."""
        self._adam(
            [self._parameters], [self._gradients], [self._mean], [self._square], [], [self._steps], foreach=False,
            fused=self._fused, amsgrad=False, beta1=BETA1, beta2=BETA2, lr=self._rate, weight_decay=0.0, eps=EPSILON,
            maximize=False,
        )  # fmt: skip


class Dropout:
    """Masks (rows, units), one per rate: zero for a unit that is dropped, else one over the share that is kept."""

    def __init__(
        self, torch: Any, random: np.random.Generator, rows: int, units: Sequence[int], rates: Sequence[float]
    ):
        self._random, self._rates = random, rates
        # Kept from epoch to epoch: fresh pages of memory would cost as much as the draws.
        self._masks = [np.empty((rows, count), dtype=np.float32) for count in units[: len(rates)]]
        self.masks = [torch.from_numpy(mask) for mask in self._masks]
        self.scales = [1.0 / (1.0 - rate) for rate in rates]

    def draw(self) -> None:
        """Fill the masks anew."""
        for mask, rate, scale in zip(self._masks, self._rates, self.scales, strict=True):
            random_pairs = self._random.integers(1 << 64, size=-(-mask.size // 4), dtype=np.uint64).view(np.uint16)
            is_kept = random_pairs[: mask.size].reshape(mask.shape) >= round(rate * BYTE_PAIRS)
            np.multiply(is_kept, np.float32(scale), out=mask)
