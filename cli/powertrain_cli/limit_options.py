"""The options of the limits, from the table of limits."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from powertrain.limit_table import LIMITS, LimitEntry
from powertrain_cli.measured import positive
from powertrain_cli.units import watts

Verb = Callable[..., None]


def limit_options(after: str) -> Callable[[Verb], Verb]:
    """Add an option for each limit that has one, behind the parameter `after`; the verb gets them by name."""

    def decorate(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def with_options(**arguments: Any) -> None:
            verb(**arguments)

        signature = inspect.signature(verb, eval_str=True)
        parameters = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        position = 1 + [each.name for each in parameters].index(after)
        parameters[position:position] = [
            inspect.Parameter(
                limit.option,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None,
                annotation=Annotated[float | None, _option(limit)],
            )
            for limit in LIMITS
            if limit.option is not None
        ]
        with_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_options

    return decorate


def _option(limit: LimitEntry) -> Any:
    """Return the option of one limit; watts may name their unit."""
    if limit.unit == "W":
        return typer.Option(parser=watts, metavar="WATTS", help=limit.help)
    return typer.Option(callback=positive, help=limit.help)


def by_attribute(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the values of these options by the attributes of the core's limits."""
    return {limit.attribute: values[limit.option] for limit in LIMITS if limit.attribute and limit.option}
