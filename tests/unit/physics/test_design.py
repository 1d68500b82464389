"""Which modes the designs choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from powertrain.physics import PhysicsPredictor, PhysicsReference, accuracy_next, initial_design, low_power_anchor


def test_first_modes_are_distinct_and_start_with_a_low_power_anchor(
    reference: PhysicsReference, tables: dict[str, Any]
) -> None:
    modes = tables["reference"].modes
    for seed in range(5):
        chosen = initial_design(reference, modes, 5, seed=seed)
        assert len(set(chosen.tolist())) == 5
        power = np.exp(reference.evaluate(modes).log_power)
        assert power[chosen[0]] <= 1.16 * power.min()
        assert power[chosen[0]] == power[chosen].min()


def test_same_seed_chooses_the_same_modes(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    modes = tables["reference"].modes
    np.testing.assert_array_equal(
        initial_design(reference, modes, 5, seed=4), initial_design(reference, modes, 5, seed=4)
    )


def test_asking_for_more_modes_than_there_are_gives_all(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    modes = tables["reference"].modes[:3]
    assert sorted(initial_design(reference, modes, 5).tolist()) == [0, 1, 2]


def test_design_works_without_a_reference(tables: dict[str, Any]) -> None:
    assert len(initial_design(None, tables["small/reference"].modes, 5)) == 5


def test_anchor_has_the_least_power(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    modes = tables["reference"].modes
    assert low_power_anchor(reference, modes) == np.argmin(reference.evaluate(modes).log_power)


def test_designed_modes_beat_random_ones(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    designed, random = [], []
    for name in ("cpu-bound", "gpu-bound", "memory-bound"):
        table = tables[name]
        for seed in range(3):
            picks = np.random.default_rng(seed).permutation(table.step_s.size)[:5]
            for chosen, errors in ((initial_design(reference, table.modes, 5, seed=seed), designed), (picks, random)):
                prediction = PhysicsPredictor(reference).fit(*table.rows(chosen)).predict(table.modes)
                errors.append(float(np.mean(np.abs(np.log(prediction.time_s / table.step_s)))))
    assert np.mean(designed) < np.mean(random)


def test_next_mode_is_unmeasured_and_lowers_the_error(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["cpu-bound"]
    chosen = initial_design(reference, table.modes, 5).tolist()
    spreads = []
    for _ in range(8):
        predictor = PhysicsPredictor(reference).fit(*table.rows(np.array(chosen)))
        spreads.append(float(predictor.posterior(table.modes).log_time_std.mean()))
        mask = np.isin(np.arange(table.step_s.size), chosen)
        following = accuracy_next(predictor, table.modes, mask, np.full(mask.size, 10.0))
        assert following not in chosen
        chosen.append(following)
    assert spreads[-1] < spreads[0]


def test_expensive_modes_are_avoided_when_cheap_ones_do(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["gpu-bound"]
    chosen = initial_design(reference, table.modes, 5)
    predictor = PhysicsPredictor(reference).fit(*table.rows(chosen))
    mask = np.isin(np.arange(table.step_s.size), chosen)
    favourite = accuracy_next(predictor, table.modes, mask, np.ones(mask.size))
    cost = np.ones(mask.size)
    cost[favourite] = 1e9
    assert accuracy_next(predictor, table.modes, mask, cost) != favourite


def test_nothing_left_to_measure_is_an_error(reference: PhysicsReference, tables: dict[str, Any]) -> None:
    table = tables["reference"]
    predictor = PhysicsPredictor(reference).fit(*table.rows(np.arange(5)))
    with pytest.raises(ValueError, match="all 400 candidate modes are measured"):
        accuracy_next(predictor, table.modes, np.ones(400, dtype=np.bool_), np.ones(400))
