"""A whole session on a real kernel: the agent alone profiles a training within its budget, chooses, and restores."""

from __future__ import annotations

from collections.abc import Callable

from powertrain_devcluster.kernel.machine import Machine

BOARD, WORKLOAD = "orin-nx-16", "mobilenet-v3"
BUDGET_W = 12.0
# What a guard that reads ten times a second can miss: the noise of the sensor and the time it takes to react.
SLACK = 1.05


def test_a_session_from_start_to_restored(start: Callable[[str], Machine]) -> None:
    machine = start(BOARD)
    result = machine.call(
        "session:session", 400.0, board=BOARD, workload=WORKLOAD, power_w=BUDGET_W, modes=4, limit_s=600.0
    )
    assert result["opened"], result
    assert result["chosen"], result
    assert result["samples"] >= 3, result
    assert result["readings"] > 50, result
    assert 0.0 < result["highest_mean_w"] <= BUDGET_W * SLACK, result
    assert result["left"] == []
    assert result["differs"] == {}
