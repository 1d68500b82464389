"""Metric: one row of a table of metrics, from which the series and the documentation are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True)
class Metric:
    """One name; counters are exposed with `_total` at its end."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def exposed_name(self) -> str:
        """Return the name as Prometheus sees it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name
