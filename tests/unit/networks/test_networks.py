"""Training and transfer of the papers' networks."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from powertrain.networks import Loss, NetworkPair, Recipe, TorchMissingError, train_pair, transfer_pair
from powertrain.networks.network import LAYER_SIZES
from powertrain.networks.recipe import FEW_MODES_RECIPE, HEAD_FIRST_RECIPE, TRANSFER_RECIPE, Phase, reference_recipe
from powertrain.space import FloatArray

from .conftest import Workload

# Enough optimiser steps to learn the made-up workloads' shape, few enough for a test.
SHORT_REPEATS = 8
QUICK = Recipe(phases=(Phase(epochs=3, learning_rate=1e-3),), row_repeats=2)
torch_only = pytest.mark.torch

Samples = tuple[FloatArray, FloatArray, FloatArray]


def mape_pct(predicted: FloatArray, true: FloatArray) -> float:
    return 100 * float(np.mean(np.abs(predicted / true - 1)))


def same(left: NetworkPair, right: NetworkPair) -> bool:
    ours, theirs = left.to_arrays(), right.to_arrays()
    return all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.fixture(scope="module")
def reference(known_workload: Workload) -> NetworkPair:
    return train_pair(
        known_workload.space.matrix, known_workload.step_s, known_workload.power_w, 0, Recipe(row_repeats=1)
    )


@pytest.fixture(scope="module")
def few(new: Workload) -> Samples:
    rows = np.random.default_rng(3).permutation(len(new.space))[:12]
    return new.space.matrix[rows], new.step_s[rows], new.power_w[rows]


@pytest.fixture(scope="module")
def from_scratch(few: Samples) -> NetworkPair:
    return train_pair(*few, 0, replace(FEW_MODES_RECIPE, row_repeats=SHORT_REPEATS))


@torch_only
def test_same_data_and_seed_give_the_same_network(known_workload: Workload) -> None:
    data = known_workload.space.matrix, known_workload.step_s, known_workload.power_w
    assert same(train_pair(*data, 7, QUICK), train_pair(*data, 7, QUICK))


@torch_only
def test_another_seed_gives_another_network(known_workload: Workload) -> None:
    data = known_workload.space.matrix, known_workload.step_s, known_workload.power_w
    assert not same(train_pair(*data, 7, QUICK), train_pair(*data, 8, QUICK))


@torch_only
def test_training_leaves_the_random_state_and_threads_of_the_process_alone(known_workload: Workload) -> None:
    import torch

    torch.manual_seed(5)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    train_pair(known_workload.space.matrix, known_workload.step_s, known_workload.power_w, 0, QUICK)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


@torch_only
def test_the_layers_are_the_papers(reference: NetworkPair) -> None:
    shapes = [weight.shape for weight in reference.time.weights]
    assert shapes == [(256, 4), (128, 256), (64, 128), (1, 64)]
    assert LAYER_SIZES == (4, 256, 128, 64, 1)


@torch_only
def test_a_reference_learns_its_own_table(known_workload: Workload, reference: NetworkPair) -> None:
    prediction = reference.predict(known_workload.space.matrix)
    assert mape_pct(prediction.time_s, known_workload.step_s) < 15
    assert mape_pct(prediction.power_w, known_workload.power_w) < 8


@torch_only
def test_numpy_evaluates_what_torch_trained(known_workload: Workload, reference: NetworkPair) -> None:
    import torch

    network = reference.power
    active = torch.tensor(network.inputs(known_workload.space.matrix))
    for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        active = torch.nn.functional.linear(active, torch.tensor(weight), torch.tensor(bias))
        active = torch.relu(active) if layer < 3 else active
    assert network.predict(known_workload.space.matrix) == pytest.approx(active[:, 0].numpy(), rel=1e-4)


@torch_only
def test_the_standard_deviation_is_the_relative_error_on_the_held_out_rows(
    known_workload: Workload, reference: NetworkPair
) -> None:
    prediction = reference.predict(known_workload.space.matrix)
    assert prediction.power_std_w == pytest.approx(prediction.power_w * reference.power.residual)
    assert 0 < reference.power.residual < 0.15


@torch_only
@pytest.mark.parametrize("recipe", [TRANSFER_RECIPE, HEAD_FIRST_RECIPE], ids=["faithful", "head-first"])
def test_transfer_from_a_reference_beats_training_from_scratch(
    recipe: Recipe, new: Workload, reference: NetworkPair, few: Samples, from_scratch: NetworkPair
) -> None:
    modes = new.space.matrix
    moved = transfer_pair(reference, *few, 0, replace(recipe, row_repeats=SHORT_REPEATS)).predict(modes)
    fresh = from_scratch.predict(modes)
    assert mape_pct(moved.time_s, new.step_s) < mape_pct(fresh.time_s, new.step_s)
    assert mape_pct(moved.power_w, new.power_w) < mape_pct(fresh.power_w, new.power_w)


@torch_only
def test_training_the_head_alone_keeps_the_hidden_layers(reference: NetworkPair, few: Samples) -> None:
    head_alone = replace(HEAD_FIRST_RECIPE, phases=(Phase(epochs=2, learning_rate=1e-3, head_only=True),))
    moved = transfer_pair(reference, *few, 0, head_alone)
    for ours, theirs in zip(moved.time.weights[:-1], reference.time.weights[:-1], strict=True):
        assert np.array_equal(ours, theirs)
    assert not np.array_equal(moved.time.weights[-1], reference.time.weights[-1])


@torch_only
def test_head_first_brings_targets_to_the_level_of_the_reference(reference: NetworkPair, few: Samples) -> None:
    moved = transfer_pair(reference, *few, 0, replace(QUICK, rescale=True))
    assert moved.time.factor == pytest.approx(few[1].mean() * 1e3 / reference.time.target_mean)
    assert transfer_pair(reference, *few, 0, QUICK).time.factor == 1.0


@torch_only
def test_the_loss_can_be_relative(few: Samples) -> None:
    relative = train_pair(*few, 0, replace(QUICK, loss=Loss.MAPE))
    assert not same(relative, train_pair(*few, 0, QUICK))


@torch_only
def test_predictions_stay_above_zero_far_outside_the_samples(reference: NetworkPair, few: Samples) -> None:
    far = few[0] * np.array([50.0, 50.0, 50.0, 50.0])
    prediction = transfer_pair(reference, *few, 0, QUICK).predict(far)
    assert (prediction.time_s > 0).all()
    assert (prediction.power_w > 0).all()


@torch_only
def test_progress_is_reported_for_both_networks(few: Samples) -> None:
    losses: list[tuple[str, float]] = []
    train_pair(*few, 0, QUICK, lambda name, share: losses.append((name, share)))
    assert losses == [(name, pytest.approx(epoch / 3)) for epoch in (1, 2, 3) for name in ("time", "power")]


def test_one_mode_is_too_few(new: Workload) -> None:
    with pytest.raises(ValueError, match="at least 2 measured modes, not 1"):
        train_pair(new.space.matrix[:1], new.step_s[:1], new.power_w[:1], 0)


def test_a_missing_torch_says_what_to_install(new: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = builtins.__import__

    def without_torch(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if name == "torch":
            raise ImportError(name)
        return whole(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(TorchMissingError, match=r"\.\[nn\]"):
        train_pair(new.space.matrix, new.step_s, new.power_w, 0)


@pytest.mark.parametrize(("rows", "repeats"), [(30, 40), (441, 10), (4368, 1), (18096, 1)])
def test_a_small_reference_table_is_repeated_up_to_the_papers_size(rows: int, repeats: int) -> None:
    assert reference_recipe(rows).row_repeats == repeats
