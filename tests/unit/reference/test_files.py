"""Saving, loading, and what happens to files that are not as they were written."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from powertrain.reference import ModelErrors, Reference, ReferenceError, load
from powertrain.reference.files import NETWORK_FILE, PHYSICS_FILE

from .conftest import made_up_network

needs_safetensors = pytest.mark.torch  # comes with the same extra


@pytest.fixture
def folder(physics_only: Reference, tmp_path: Path) -> Path:
    physics_only.save(tmp_path / "made-up")
    return tmp_path / "made-up"


@pytest.fixture
def whole(physics_only: Reference) -> Reference:
    errors = ModelErrors(time_mape_pct=4.0, power_mape_pct=2.0, over="made up")
    pair = made_up_network()
    return replace(
        physics_only, card=physics_only.card.model_copy(update={"network": errors}), make_network=lambda: pair
    )


def test_a_loaded_reference_is_the_saved_one(physics_only: Reference, folder: Path) -> None:
    again = load(folder)
    assert again.card == physics_only.card
    assert np.array_equal(again.physics.theta, physics_only.physics.theta)
    assert not again.has_network


def test_saving_twice_gives_the_same_bytes(physics_only: Reference, folder: Path, tmp_path: Path) -> None:
    physics_only.save(tmp_path / "again")
    for file in sorted(folder.iterdir()):
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_a_loaded_reference_can_be_sent_to_another_process(folder: Path) -> None:
    again = pickle.loads(pickle.dumps(load(folder)))
    assert np.array_equal(again.physics.theta, load(folder).physics.theta)


@needs_safetensors
def test_networks_come_back_as_they_were_saved(whole: Reference, tmp_path: Path) -> None:
    whole.save(tmp_path)
    modes = np.random.default_rng(0).uniform(1, 5, size=(20, 4))
    assert np.array_equal(load(tmp_path).network().predict(modes).time_s, whole.network().predict(modes).time_s)


@needs_safetensors
def test_a_changed_byte_in_the_networks_is_noticed(whole: Reference, tmp_path: Path) -> None:
    whole.save(tmp_path)
    data = bytearray((tmp_path / NETWORK_FILE).read_bytes())
    data[-100] ^= 1
    (tmp_path / NETWORK_FILE).write_bytes(data)
    with pytest.raises(ReferenceError, match=r"network\.safetensors: is damaged \(its checksum"):
        load(tmp_path).network()


@needs_safetensors
@pytest.mark.parametrize("byte_count", [0, 7, 200, 5000])
def test_cut_networks_are_noticed(byte_count: int, whole: Reference, tmp_path: Path) -> None:
    whole.save(tmp_path)
    (tmp_path / NETWORK_FILE).write_bytes((tmp_path / NETWORK_FILE).read_bytes()[:byte_count])
    with pytest.raises(ReferenceError, match=r"network\.safetensors: is damaged"):
        load(tmp_path).network()


@needs_safetensors
def test_missing_networks_are_said_at_once(whole: Reference, tmp_path: Path) -> None:
    whole.save(tmp_path)
    (tmp_path / NETWORK_FILE).unlink()
    with pytest.raises(ReferenceError, match=r"network\.safetensors: is missing"):
        load(tmp_path)


@needs_safetensors
def test_saving_without_networks_removes_old_ones(whole: Reference, physics_only: Reference, tmp_path: Path) -> None:
    whole.save(tmp_path)
    physics_only.save(tmp_path)
    assert not (tmp_path / NETWORK_FILE).exists()


def test_a_reference_without_networks_says_how_to_make_them(physics_only: Reference) -> None:
    with pytest.raises(ReferenceError, match=r"has no networks.*powertrain reference train .*--device orin-agx"):
        physics_only.network()


@pytest.mark.parametrize("byte_count", [0, 10, 500])
def test_cut_physics_is_noticed(byte_count: int, folder: Path) -> None:
    (folder / PHYSICS_FILE).write_bytes((folder / PHYSICS_FILE).read_bytes()[:byte_count])
    with pytest.raises(ReferenceError, match=r"physics\.npz: is damaged"):
        load(folder).physics.rows  # noqa: B018 — reading it is what fails


def test_a_changed_byte_in_the_physics_is_noticed(folder: Path) -> None:
    data = bytearray((folder / PHYSICS_FILE).read_bytes())
    data[100] ^= 1
    (folder / PHYSICS_FILE).write_bytes(data)
    with pytest.raises(ReferenceError, match=r"physics\.npz: is damaged"):
        load(folder).physics.rows  # noqa: B018


def test_a_pickle_in_place_of_the_physics_is_refused(folder: Path) -> None:
    (folder / PHYSICS_FILE).write_bytes(pickle.dumps({"theta": [1.0]}))
    with pytest.raises(ReferenceError, match=r"physics\.npz: is damaged"):
        load(folder).physics.rows  # noqa: B018


def test_physics_with_other_parameters_is_of_another_version(folder: Path) -> None:
    with np.load(folder / PHYSICS_FILE, allow_pickle=False) as arrays:
        changed = {name: arrays[name] for name in arrays.files}
    changed["theta"] = changed["theta"][:-1]
    np.savez_compressed(folder / PHYSICS_FILE, **changed)
    with pytest.raises(ReferenceError, match=r"made by another version of powertrain \(theta must hold"):
        load(folder).physics.rows  # noqa: B018


def test_missing_physics_is_said_at_once(folder: Path) -> None:
    (folder / PHYSICS_FILE).unlink()
    with pytest.raises(ReferenceError, match=r"physics\.npz: is missing"):
        load(folder)


def test_a_folder_without_a_card_is_no_reference(tmp_path: Path) -> None:
    with pytest.raises(ReferenceError, match=r"not a reference, it has no reference\.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "can't be read"),
        ("[]", "the document"),
        ('{"schema_version": 99, "anything": 1}', "newer than this powertrain reads"),
        ('{"schema_version": 1}', "name: Field required"),
    ],
)
def test_a_bad_card_says_what_is_wrong(text: str, message: str, folder: Path) -> None:
    (folder / "reference.json").write_text(text)
    with pytest.raises(ReferenceError, match=message):
        load(folder)


def test_the_card_tells_what_was_trained_on_what(folder: Path) -> None:
    card = json.loads((folder / "reference.json").read_text())
    assert (card["name"], card["device"], card["workload"]) == ("orin-agx-made-up", "orin-agx", "made-up")
    assert (card["batch_size"], card["rows"], card["seed"], card["network"]) == (16, 108, 0, None)
    assert card["space"]["cpu_khz"] == {"lowest": 422400, "highest": 2201600, "steps": 3}
    assert 0 < card["physics"]["time_mape_pct"] < 10
