"""Envelopes and reports: names on the wire, defaults, tolerance for newer releases, conditions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from powertrain.api.v1alpha1 import (
    ConditionStatus,
    Instrumentation,
    SessionSpec,
    SessionStatus,
    find,
    with_condition,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def envelope(**changes: Any) -> dict[str, Any]:
    return {
        "protocol": 1,
        "uid": "s-1",
        "job": {"namespace": "team", "name": "lstm"},
        "workload": {"name": "lstm"},
        **changes,
    }


def test_a_short_envelope_is_filled_with_the_defaults_of_the_design() -> None:
    spec = SessionSpec.model_validate(envelope(limits={"powerWatts": 30}))
    assert (spec.limits.guard_window_seconds, spec.risk, spec.explore_risk) == (3.0, 0.05, 0.01)
    assert (spec.plan.strategy, spec.time_zone, spec.workload.instrumentation) == (
        "transfer",
        "UTC",
        Instrumentation.AUTO,
    )
    assert str(spec.job) == "team/lstm"


def test_names_on_the_wire_are_kubernetes_names() -> None:
    spec = SessionSpec.model_validate(
        envelope(podUIDs=["p"], schedule=[{"from": "22:00", "watts": 40}], plan={"maxModes": 5})
    )
    wire = spec.wire()
    assert wire["podUIDs"] == ["p"]
    assert wire["schedule"] == [{"from": "22:00", "watts": 40.0}]
    assert wire["plan"]["maxModes"] == 5
    assert SessionStatus(uid="s-1", boot_id="b").wire()["bootID"] == "b"
    assert SessionSpec.model_validate(wire) == spec


def test_a_field_of_a_newer_release_is_ignored() -> None:
    assert SessionSpec.model_validate(envelope(later={"x": 1})) == SessionSpec.model_validate(envelope())


@pytest.mark.parametrize(
    "bad",
    [
        {"limits": {"powerWatts": 0}},
        {"risk": 1},
        {"schedule": [{"from": "24:00", "watts": 3}]},
        {"objective": "Fastest"},
        {"workload": {"name": "w", "batchSize": 0}},
    ],
)
def test_values_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SessionSpec.model_validate(envelope(**bad))


def test_a_condition_keeps_its_transition_time_while_the_verdict_holds() -> None:
    first = with_condition((), "Ready", True, "AgentServes", at=NOW)
    later = NOW + timedelta(minutes=5)
    same = with_condition(first, "Ready", True, "StillServing", at=later)
    changed = with_condition(same, "Ready", False, "SensorLost", "no reading", at=later, generation=3)
    assert same[0].last_transition_time == "2026-03-01T12:00:00Z"
    assert same[0].reason == "StillServing"
    assert changed[0].last_transition_time == "2026-03-01T12:05:00Z"
    assert (changed[0].status, changed[0].observed_generation) == (ConditionStatus.FALSE, 3)


def test_conditions_keep_their_order_and_the_others() -> None:
    conditions = with_condition(with_condition((), "Ready", True, "A", at=NOW), "Accepted", None, "B", at=NOW)
    assert [condition.type for condition in conditions] == ["Accepted", "Ready"]
    assert find(conditions, "Accepted") is conditions[0]
    assert find(conditions, "Missing") is None


def test_a_message_that_is_too_long_is_cut() -> None:
    (condition,) = with_condition((), "Ready", True, "A", "x" * 5000, at=NOW)
    assert len(condition.message) == 1024
    assert condition.message.endswith("…")
