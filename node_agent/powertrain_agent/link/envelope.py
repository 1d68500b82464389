"""Reads an envelope out of a PowerNode: accepts the own protocol ± 1, and always the release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from powertrain.api.v1alpha1 import PROTOCOL, SessionSpec


@dataclass(frozen=True)
class Refusal:
    """Why an envelope is not accepted, as a condition's reason and message."""

    uid: str
    generation: int
    reason: str  # VersionSkew | InvalidEnvelope
    message: str


@dataclass(frozen=True)
class Envelope:
    """What a PowerNode asks: at most one of spec and refusal; the release stands by itself."""

    spec: SessionSpec | None = None
    release: str | None = None
    refusal: Refusal | None = None


def read(power_node: Mapping[str, Any], protocol: int = PROTOCOL) -> Envelope:
    """Read the spec of a PowerNode as the API server gave it; never fails."""
    spec = power_node.get("spec") or {}
    release = spec.get("release")
    release = release if isinstance(release, str) and release else None
    raw = spec.get("session")
    if not isinstance(raw, Mapping):
        return Envelope(release=release)
    theirs = raw.get("protocol")
    if not isinstance(theirs, int) or abs(theirs - protocol) > 1:
        message = (
            f"the envelope speaks protocol {theirs!r}, this agent {protocol} and accepts "
            f"{max(1, protocol - 1)} to {protocol + 1}: bring operator and agent to neighbouring releases"
        )
        return Envelope(release=release, refusal=_refusal(raw, "VersionSkew", message))
    try:
        return Envelope(SessionSpec.model_validate(raw), release)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        message = f"session.{where}: {first['msg']}, not {first['input']!r:.200}{more}"
        return Envelope(release=release, refusal=_refusal(raw, "InvalidEnvelope", message))


def _refusal(raw: Mapping[str, Any], reason: str, message: str) -> Refusal:
    generation = raw.get("generation")
    return Refusal(str(raw.get("uid", "")), generation if isinstance(generation, int) else 0, reason, message)
