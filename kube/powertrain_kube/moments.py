"""Moments as the API server writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def micro_time(at: datetime) -> str:
    """Return a time as Leases and Events want it: RFC 3339 with microseconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
