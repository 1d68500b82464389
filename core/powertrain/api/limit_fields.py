"""The API fields and CEL rules of the limits, from the table of limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, create_model

from powertrain.api.base import ApiModel, Positive
from powertrain.limit_table import LIMITS, LimitEntry, Quantity, Span, wire_names

NEEDED_BY_MIN_TIME = wire_names(of=(Quantity.POWER,)) + wire_names(of=(Quantity.ENERGY,))
NEEDED_BY_MIN_POWER = wire_names(of=(Quantity.TIME,)) + wire_names(of=(Quantity.ENERGY,))
PER_EPOCH = wire_names(per=(Span.EPOCH,))
PER_TRAINING = wire_names(per=(Span.TRAINING,))


def with_limits(
    base: type[ApiModel], description: Callable[[LimitEntry], str], *, overrides_only: bool = False
) -> type[ApiModel]:
    """Return a model with the fields of `base` and those limits of the table that it does not have yet."""
    fields: dict[str, Any] = {
        limit.field: (Annotated[Positive | None, Field(description=description(limit))], None)
        for limit in LIMITS
        if limit.field not in base.model_fields and (limit.may_override or not overrides_only)
    }
    return create_model(base.__name__, __base__=base, __doc__=base.__doc__, **fields)


def limit_rules(parent: str, messages: tuple[str, str, str, str]) -> tuple[tuple[str, str], ...]:
    """Return the CEL rules on which limits an objective needs, and on the workload that a limit needs.

    The messages are for MinTime, for MinPower, for limits per epoch and for limits on the whole training.
    """
    path = f"self.{parent}"

    def any_of(names: list[str]) -> str:
        return " || ".join(f"has({path}.{name})" for name in names)

    def none_of(names: list[str]) -> str:
        return " && ".join(f"!has({path}.{name})" for name in names)

    samples, epochs = "has(self.workload.samplesPerEpoch)", "has(self.workload.epochs)"
    return tuple(
        zip(
            (
                f"self.objective != 'MinTime' || has({path}) && ({any_of(NEEDED_BY_MIN_TIME)})",
                f"self.objective != 'MinPower' || has({path}) && ({any_of(NEEDED_BY_MIN_POWER)})",
                f"!has({path}) || {none_of(PER_EPOCH)} || {samples}",
                f"!has({path}) || {none_of(PER_TRAINING)} || {samples} && {epochs}",
            ),
            messages,
            strict=True,
        )
    )
