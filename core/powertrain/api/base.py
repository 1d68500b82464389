"""What every API model shares: camelCase names on the wire, unknown fields left alone, unset fields left out."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from powertrain.limit_table import MAX_WINDOW_S

GROUP = "powertrain.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=0)]
Window = Annotated[float, Field(gt=0, le=MAX_WINDOW_S)]
# What users may count to: every reader of JSON takes it for the same number. The server refuses more; an object that
# was stored before it did is still read.
MOST_COUNTED = 2**53 - 1
Bounded = Annotated[int, Field(ge=1, json_schema_extra={"maximum": MOST_COUNTED})]
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Pace(StrEnum):
    """How soon a change of a status field must be seen. A field without a mark is a decision: it is written at once."""

    FIGURE = "figure"  # grows or wavers while all goes well; can wait
    DETAIL = "detail"  # says more about a decision; waits a moment


FIGURE, DETAIL = Pace.FIGURE, Pace.DETAIL


class ApiModel(BaseModel):
    """A part of an API object. What a newer release added is ignored, so releases one apart understand each other."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def wire(self) -> dict[str, Any]:
        """Return it as it goes over the wire: plain values, unset fields absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def defaults_of(model: type[ApiModel], *paces: Pace) -> dict[str, Any]:
    """Return the fields of a model that have one of these marks, with their defaults."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if any(pace in field.metadata for pace in paces)
    }


def rules(*pairs: tuple[str, str]) -> ConfigDict:
    """Return a model's settings with CEL rules that the API server checks, each with what it says when broken."""
    return ConfigDict(
        json_schema_extra={"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}
    )
