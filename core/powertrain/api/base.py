"""What every API model shares: camelCase names on the wire, unknown fields left alone, unset fields left out."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP = "powertrain.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=0)]
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class ApiModel(BaseModel):
    """A part of an API object. What a newer release added is ignored, so releases one apart understand each other."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def wire(self) -> dict[str, Any]:
        """Return it as it goes over the wire: plain values, unset fields absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def rules(*pairs: tuple[str, str]) -> ConfigDict:
    """Return a model's settings with CEL rules that the API server checks, each with what it says when broken."""
    return ConfigDict(
        json_schema_extra={"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}
    )
