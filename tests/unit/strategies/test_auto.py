from __future__ import annotations

import pytest

from powertrain.strategies.auto import recommend
from powertrain.workload import Changes, Recurrence

HOUR = 3600.0


@pytest.mark.parametrize(
    ("recurrence", "changes", "expected_s", "strategy", "modes"),
    [
        (Recurrence.ONCE, Changes.NEVER, 100 * HOUR, "brute-force", None),
        (Recurrence.OCCASIONAL, Changes.RARE, 5 * HOUR, "nn", 100),
        (Recurrence.PERIODIC, Changes.RARE, 0.5 * HOUR, "transfer", 20),
        (Recurrence.OFTEN, Changes.OFTEN, None, "transfer", 20),
        (Recurrence.ONCE, Changes.NEVER, 0.5 * HOUR, "transfer", 20),
        (Recurrence.ONCE, Changes.NEVER, 10 * HOUR, "nn", 100),
    ],
)
def test_each_scenario_of_table_1_gets_its_strategy(recurrence, changes, expected_s, strategy, modes):
    recommendation = recommend(recurrence, changes, expected_s)
    assert (recommendation.strategy, recommendation.max_modes) == (strategy, modes)
    assert recommendation.reason


def test_an_existing_profile_is_checked_not_made_again():
    recommendation = recommend(Recurrence.ONCE, Changes.NEVER, 100 * HOUR, has_profile=True)
    assert recommendation.strategy == "transfer"
    assert recommendation.max_modes == 3
    assert "profile" in recommendation.reason


def test_without_torch_the_network_is_replaced_and_the_reason_says_so():
    recommendation = recommend(Recurrence.OCCASIONAL, Changes.RARE, 5 * HOUR, has_torch=False)
    assert recommendation.strategy == "transfer"
    assert "torch is not installed" in recommendation.reason
