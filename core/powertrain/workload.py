"""A workload over its life: how often it is trained, and how often it changes."""

from __future__ import annotations

from enum import StrEnum


class Recurrence(StrEnum):
    """How often the workload is trained."""

    ONCE = "Once"
    OCCASIONAL = "Occasional"
    PERIODIC = "Periodic"
    OFTEN = "Often"


class Changes(StrEnum):
    """How often the workload itself changes."""

    NEVER = "Never"
    RARE = "Rare"
    OFTEN = "Often"
