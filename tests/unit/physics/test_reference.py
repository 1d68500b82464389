"""Fitting, storing and recognising a reference."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from powertrain.physics import PhysicsReference, fit_reference


def test_reference_describes_its_own_table(reference: PhysicsReference) -> None:
    assert reference.mape_pct[0] < 3.0
    assert reference.mape_pct[1] < 3.0


def test_fit_is_the_same_every_time(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["reference"]
    again = fit_reference(table.modes, table.step_s, table.power_w)
    np.testing.assert_array_equal(again.theta, reference.theta)


def test_rows_with_a_wrong_clock_hardly_move_the_fit(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["reference"]
    step_s, power_w = table.step_s.copy(), table.power_w.copy()
    step_s[::20] *= 0.4
    power_w[::20] *= 1.5
    spoiled = fit_reference(table.modes, step_s, power_w)
    clean, other = reference.evaluate(table.modes), spoiled.evaluate(table.modes)
    assert np.mean(np.abs(clean.log_time - other.log_time)) < 0.01
    assert np.mean(np.abs(clean.log_power - other.log_power)) < 0.01


def test_arrays_survive_a_file(reference: PhysicsReference) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, **reference.to_arrays())  # type: ignore[arg-type]
    assert file.tell() < 200_000
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        restored = PhysicsReference.from_arrays(arrays)
    for name, array in reference.to_arrays().items():
        np.testing.assert_array_equal(restored.to_arrays()[name], array)


def test_missing_array_is_named(reference: PhysicsReference) -> None:
    arrays = reference.to_arrays()
    del arrays["theta_sd"]
    with pytest.raises(ValueError, match="theta_sd"):
        PhysicsReference.from_arrays(arrays)


def test_boards_are_told_apart(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    assert reference.same_board(tables["reference"].modes)
    assert reference.same_board(tables["reference"].modes[:7]), "a part of the board is still the board"
    assert not reference.same_board(tables["small/reference"].modes)


@pytest.mark.parametrize(
    ("modes", "message"),
    [
        ([[1.0, 2.0, 3.0]], r"\(n, 4\)"),
        ([[0.0, 1e6, 1e9, 1e9]], "above zero"),
        ([[4.0, np.nan, 1e9, 1e9]], "finite"),
    ],
)
def test_bad_modes_are_refused_with_their_value(modes: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_reference(np.array(modes), np.ones(1), np.ones(1))
