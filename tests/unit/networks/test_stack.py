"""Networks that are trained side by side, against plain torch: recorded gradients and its own optimizer."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from powertrain.networks import Loss
from powertrain.networks.fitting import LOSSES, SLOPES
from powertrain.networks.network import LAYER_SIZES, LAYERS
from powertrain.networks.stack import Adam, Dropout, Stack, fresh_layers, stacked

pytestmark = pytest.mark.torch

STEPS, ROWS, RATES = 5, 32, (0.4, 0.3)


def plain(torch: Any, stack: Stack, network: int) -> Any:
    """Return one network of a stack as torch's own layers."""
    layers = [torch.nn.Linear(*shape) for shape in pairwise(LAYER_SIZES)]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, *stack.layers(network), strict=True):
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.copy_(torch.tensor(bias))
    return torch.nn.ModuleList(layers)


def plain_output(torch: Any, layers: Any, inputs: Any, masks: list[Any]) -> Any:
    active = inputs
    for k, layer in enumerate(layers):
        active = layer(active)
        active = torch.relu(active) if k < LAYERS - 1 else active
        active = active * masks[k] if k < len(masks) else active
    return active


@pytest.mark.parametrize("first", [0, LAYERS - 1], ids=["all layers", "the head alone"])
@pytest.mark.parametrize("loss", list(Loss))
def test_networks_side_by_side_take_the_steps_of_plain_torch(loss: Loss, first: int) -> None:
    import torch

    random = np.random.default_rng(0)
    stack = stacked(torch, fresh_layers(random, LAYER_SIZES), (None, None))
    singles = [plain(torch, stack, network) for network in range(2)]
    theirs = [torch.optim.Adam(single[first:].parameters(), lr=1e-3) for single in singles]
    ours = Adam(torch, stack, first, 1e-3)
    dropout = Dropout(torch, random, ROWS, LAYER_SIZES[1:], RATES)
    for _ in range(STEPS):
        dropout.draw()
        inputs = torch.tensor(random.normal(size=(2, ROWS, 4)), dtype=torch.float32)
        targets = torch.tensor(random.uniform(5, 50, (2, ROWS, 1)), dtype=torch.float32)
        with torch.no_grad():
            active = stack.forward(inputs, dropout.masks)
            stack.backward(active, SLOPES[loss](active[-1], targets), dropout.scales, first)
            ours.step()
        for network, (single, optimizer) in enumerate(zip(singles, theirs, strict=True)):
            optimizer.zero_grad()
            output = plain_output(torch, single, inputs[network], dropout.masks)
            LOSSES[loss](output[None], targets[[network]]).sum().backward()
            optimizer.step()
    for network, single in enumerate(singles):
        for layer, weight, bias in zip(single, *stack.layers(network), strict=True):
            assert weight == pytest.approx(layer.weight.detach().numpy(), abs=2e-5)
            assert bias == pytest.approx(layer.bias.detach().numpy(), abs=2e-5)


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    import torch

    dropout = Dropout(torch, np.random.default_rng(0), 1000, LAYER_SIZES[1:], RATES)
    dropout.draw()
    for mask, units, rate in zip(dropout.masks, (256, 128), RATES, strict=True):
        assert mask.shape == (1000, units)
        assert float((mask == 0).float().mean()) == pytest.approx(rate, abs=0.01)
        assert float(mask.mean()) == pytest.approx(1.0, abs=0.02)


def test_each_draw_differs_and_a_seed_repeats_them() -> None:
    import torch

    def draws() -> list[Any]:
        dropout = Dropout(torch, np.random.default_rng(3), 8, LAYER_SIZES[1:], RATES)
        drawn = []
        for _ in range(2):
            dropout.draw()
            drawn.append(dropout.masks[0].clone())
        return drawn

    one, other = draws(), draws()
    assert not torch.equal(one[0], one[1])
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
