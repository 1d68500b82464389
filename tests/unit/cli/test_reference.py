"""`powertrain reference`, run the way a user runs it."""

import json
from pathlib import Path

import numpy as np
import pytest

from powertrain import devices
from powertrain.networks import TorchMissingError
from powertrain.reference import load
from powertrain.reference import reference as module

from .conftest import HEADER, Command


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Return a table of 90 modes of Orin AGX that a formula made."""
    space = devices.get("orin-agx").space()
    lines = [HEADER]
    for row in np.random.default_rng(0).permutation(len(space))[:90]:
        cores, cpu, gpu, emc = space.matrix[row] / space.matrix[-1]
        time_ms = 50 * (0.3 / (cpu * cores**0.3) + 0.7 / gpu + 0.1 / emc)
        power_w = 9 + 4 * emc + 10 * cores * cpu**2 + 25 * gpu**1.5
        mode = space[int(row)]
        lines.append(f"{mode.cores},{mode.cpu_khz},{mode.gpu_hz},{mode.emc_hz},16,{time_ms:.4f},{power_w:.3f}")
    path = tmp_path / "measured.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def arguments(measured: Path, *more: str) -> list[str]:
    return ["reference", "train", str(measured), "--device", "orin-agx", "--workload", "formula", *more]


def test_training_writes_a_reference_and_tells_its_error(powertrain: Command, measured: Path, tmp_path: Path) -> None:
    result = powertrain(*arguments(measured, "--out", str(tmp_path / "out"), "--no-network", "--json"))
    assert result.code == 0
    document = json.loads(result.out)
    assert (document["name"], document["rows"], document["network"]) == ("orin-agx-formula", 90, None)
    assert document["physics"]["time_mape_pct"] < 10
    assert load(tmp_path / "out").card.name == "orin-agx-formula"


def test_showing_tells_what_was_trained_on_what(powertrain: Command, measured: Path, tmp_path: Path) -> None:
    powertrain(*arguments(measured, "--out", str(tmp_path / "out"), "--no-network", "--notes", "made by a formula"))
    result = powertrain("reference", "show", str(tmp_path / "out"))
    assert (result.code, result.err) == (0, "")
    for part in ("orin-agx-formula", "90 modes", "batch size 16", "seed 0", "made by a formula", "all rows"):
        assert part in result.out


def test_the_shipped_reference_can_be_shown(powertrain: Command) -> None:
    document = json.loads(powertrain("reference", "show", "shipped", "--json").out)
    assert (document["source"], document["device"], document["rows"]) == ("shipped", "orin-agx", 4368)
    assert document["network"]["power_mape_pct"] < 5


def test_a_folder_that_is_no_reference_is_bad_input(powertrain: Command, tmp_path: Path) -> None:
    result = powertrain("reference", "show", str(tmp_path))
    assert (result.code, result.out) == (2, "")
    assert "not a reference, it has no reference.json" in result.err


def test_a_card_beside_another_references_arrays_is_bad_input(
    powertrain: Command, measured: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    powertrain(*arguments(measured, "--out", str(out), "--no-network"))
    card = json.loads((out / "reference.json").read_text())
    (out / "reference.json").write_text(json.dumps(card | {"rows": 91}))
    result = powertrain("reference", "show", str(out))
    assert result.code == 2
    assert "the card is of 91 rows, the physics of 90" in result.err


def test_an_unknown_board_is_bad_input(powertrain: Command, measured: Path, tmp_path: Path) -> None:
    result = powertrain(
        "reference", "train", str(measured), "--device", "orin-agz", "--workload", "x", "--out", str(tmp_path / "out")
    )
    assert result.code == 2
    assert "orin-agz" in result.err
    assert not (tmp_path / "out").exists()


def test_a_table_that_is_too_small_is_bad_input(powertrain: Command, measured: Path, tmp_path: Path) -> None:
    measured.write_text("\n".join(measured.read_text().splitlines()[:6]) + "\n")
    result = powertrain(*arguments(measured, "--out", str(tmp_path / "out"), "--no-network"))
    assert result.code == 2
    assert "at least 30 modes" in result.err


def test_a_file_in_place_of_the_folder_is_bad_input(powertrain: Command, measured: Path) -> None:
    result = powertrain(*arguments(measured, "--out", str(measured), "--no-network"))
    assert result.code == 2
    assert "is a file, not a folder" in result.err


def test_a_missing_torch_is_the_environments_fault_and_names_the_way_out(
    powertrain: Command, measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*arguments: object) -> None:
        raise TorchMissingError("torch is not installed: pip install '.[nn]' in a checkout")

    monkeypatch.setattr(module, "train_pair", missing)
    result = powertrain(*arguments(measured, "--out", str(tmp_path / "out")))
    assert result.code == 3
    assert ".[nn]" in result.err
    assert "--no-network" in result.err
