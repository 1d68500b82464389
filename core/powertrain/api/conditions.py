"""metav1 conditions: one verdict each, with a stable reason; the transition time moves only when the verdict does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from powertrain.api.base import ApiModel, Count, Moment

MAX_MESSAGE = 1024


class ConditionStatus(StrEnum):
    """The verdict of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One aspect of an object's state, as in every Kubernetes API."""

    type: Annotated[str, Field(max_length=316, description="Which aspect, in CamelCase.")]
    status: Annotated[ConditionStatus, Field(description="True, False or Unknown.")]
    reason: Annotated[
        str, Field(pattern="^[A-Za-z]+$", max_length=64, description="Why, as one stable word in CamelCase.")
    ]
    message: Annotated[str, Field(max_length=MAX_MESSAGE, description="Why, for people.")] = ""
    last_transition_time: Annotated[Moment, Field(description="When the status last changed.")]
    observed_generation: Annotated[Count | None, Field(description="The generation that was evaluated.")] = None


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


def moment(at: datetime) -> str:
    """Return a time as the API writes it: RFC 3339, UTC, whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def with_condition(
    conditions: Sequence[Condition],
    type_: str,
    holds: bool | None,
    reason: str,
    message: str = "",
    *,
    at: datetime,
    generation: int | None = None,
) -> tuple[Condition, ...]:
    """Return the conditions with one of them set (None: unknown); an unchanged verdict keeps its transition time."""
    words = {True: ConditionStatus.TRUE, False: ConditionStatus.FALSE, None: ConditionStatus.UNKNOWN}
    before = find(conditions, type_)
    is_same = before is not None and before.status is words[holds]
    new = Condition(
        type=type_,
        status=words[holds],
        reason=reason,
        message=message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…",
        last_transition_time=before.last_transition_time if before is not None and is_same else moment(at),
        observed_generation=generation,
    )
    return tuple(sorted([*(c for c in conditions if c.type != type_), new], key=lambda c: c.type))


def find(conditions: Sequence[Condition], type_: str) -> Condition | None:
    """Return the condition of a type, None if it is not there."""
    return next((condition for condition in conditions if condition.type == type_), None)
