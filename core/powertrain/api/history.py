"""A session's history on the wire: one text, which the API server neither parses nor compares value by value."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from powertrain.api.base import ApiModel
from powertrain.session_history import COMPACT_BYTES

HistoryText = Annotated[str, Field(max_length=COMPACT_BYTES)]


class NodeHistory(ApiModel):
    """Power, step time, mode and limit over time of the session that the board serves, or served last."""

    session: Annotated[str, Field(max_length=128, description="The session.")]
    data: Annotated[HistoryText, Field(description="JSON of columns, for `powertrain report`.")]
