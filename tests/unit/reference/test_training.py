"""Training references and making them lazily from tables."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from powertrain.networks import NetworkPair
from powertrain.reference import Reference, ReferenceError, cache, train_reference
from powertrain.reference import reference as module
from powertrain.samples import SampleTable

from .conftest import made_up_network, made_up_table


class Trainer:
    """Stands in for the networks' training and counts its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        monkeypatch.setattr(module, "train_pair", self)

    def __call__(self, *arguments: object) -> NetworkPair:
        self.calls += 1
        return made_up_network(self.calls)


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    return Trainer(monkeypatch)


def test_the_order_of_rows_in_a_table_does_not_matter(table: SampleTable, physics_only: Reference) -> None:
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    again = train_reference(shuffled, "orin-agx", "made-up", seed=0, with_network=False)
    assert again.card == physics_only.card
    assert np.array_equal(again.physics.theta, physics_only.physics.theta)


def test_another_value_in_the_table_changes_its_checksum(physics_only: Reference) -> None:
    other = train_reference(made_up_table(cpu_share=0.31), "orin-agx", "made-up", with_network=False)
    assert other.card.data_sha256 != physics_only.card.data_sha256


def test_a_table_of_several_batch_sizes_is_refused(table: SampleTable) -> None:
    sizes = np.where(np.arange(len(table)) % 2, 16, 32)
    mixed = SampleTable(table.matrix, sizes, table.step_s, table.power_w)
    with pytest.raises(ReferenceError, match=r"one batch size.*\[16, 32\]"):
        train_reference(mixed, "orin-agx", "made-up", with_network=False)


def test_a_table_with_too_few_modes_is_refused(table: SampleTable) -> None:
    with pytest.raises(ReferenceError, match="at least 30 modes, the table of 'made-up' has 5"):
        Reference.from_table(table.take(np.arange(5)), "orin-agx", "made-up")


def test_a_lazy_reference_trains_nothing_before_it_is_used(
    table: SampleTable, trainer: Trainer, tmp_path: Path
) -> None:
    reference = Reference.from_table(table, None, "made-up", cache=tmp_path)
    assert (reference.has_network, reference.card.device, trainer.calls) == (True, None, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_lazy_reference_can_be_sent_to_another_process(table: SampleTable, tmp_path: Path) -> None:
    reference = Reference.from_table(table, None, "made-up", cache=tmp_path)
    assert np.array_equal(pickle.loads(pickle.dumps(reference)).physics.theta, reference.physics.theta)


@pytest.mark.torch
def test_networks_of_a_table_are_trained_once_and_then_read_from_the_cache(
    table: SampleTable, trainer: Trainer, tmp_path: Path
) -> None:
    first = Reference.from_table(table, None, "made-up", cache=tmp_path).network()
    again = Reference.from_table(table, None, "made-up", cache=tmp_path).network()
    assert trainer.calls == 1
    assert np.array_equal(first.time.weights[0], again.time.weights[0])


@pytest.mark.torch
def test_another_seed_or_table_is_another_entry_of_the_cache(
    table: SampleTable, trainer: Trainer, tmp_path: Path
) -> None:
    Reference.from_table(table, None, "made-up", seed=0, cache=tmp_path).network()
    Reference.from_table(table, None, "made-up", seed=1, cache=tmp_path).network()
    Reference.from_table(made_up_table(cpu_share=0.4), None, "made-up", seed=0, cache=tmp_path).network()
    assert trainer.calls == len(list(tmp_path.iterdir())) == 3


@pytest.mark.torch
def test_a_damaged_entry_of_the_cache_is_trained_again(table: SampleTable, trainer: Trainer, tmp_path: Path) -> None:
    Reference.from_table(table, None, "made-up", cache=tmp_path).network()
    (entry,) = tmp_path.glob("*/network.safetensors")
    entry.write_bytes(entry.read_bytes()[:1000])
    Reference.from_table(table, None, "made-up", cache=tmp_path).network()
    Reference.from_table(table, None, "made-up", cache=tmp_path).network()
    assert trainer.calls == 2
    assert [file.name for file in entry.parent.iterdir()] == ["network.safetensors"]


@pytest.mark.torch
def test_a_cache_that_cannot_be_written_does_not_matter(table: SampleTable, trainer: Trainer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    pair = Reference.from_table(table, None, "made-up", cache=tmp_path / "file").network()
    assert trainer.calls == 1
    assert pair.time.residual > 0


def test_the_cache_follows_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_directory() == tmp_path / "powertrain" / "references"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.default_directory() == Path.home() / ".cache" / "powertrain" / "references"


def test_a_reference_knows_its_own_table_in_any_order_of_rows(target_table, reference_table):
    reference = Reference.from_table(target_table, None, "x")
    assert reference.fitted_to(target_table.take(np.arange(len(target_table))[::-1]))
    assert not reference.fitted_to(reference_table)
    assert not reference.fitted_to(target_table.take(np.arange(100)))
