"""Reads an envelope out of a PowerNode: accepts the own protocol ± 1, and always the release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from powertrain.api.v1alpha1 import PROTOCOL, NodePolicy, PowerShare, SessionSpec
from powertrain_agent.governing.usable import problem_of


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


@dataclass(frozen=True)
class Policy:
    """The site's policy of a PowerNode (None: it has none), or what is wrong with it."""

    policy: NodePolicy | None = None
    problem: str = ""


def read_policy(power_node: Mapping[str, Any]) -> Policy:
    """Read the policy of a PowerNode as the API server gave it; never fails."""
    raw = (power_node.get("spec") or {}).get("policy")
    if raw is None:
        return Policy()
    try:
        return Policy(NodePolicy.model_validate(raw))
    except ValidationError as error:
        return Policy(problem=_first_problem("policy", error))


@dataclass(frozen=True)
class SharesRead:
    """The shares of a PowerNode, or what is wrong with them."""

    shares: tuple[PowerShare, ...] = ()
    problem: str = ""


def read_shares(power_node: Mapping[str, Any]) -> SharesRead:
    """Read the shares of a PowerNode as the API server gave it; never fails."""
    raw = (power_node.get("spec") or {}).get("shares") or ()
    try:
        return SharesRead(tuple(PowerShare.model_validate(each) for each in raw))
    except (ValidationError, TypeError) as error:
        problem = _first_problem("shares", error) if isinstance(error, ValidationError) else f"shares: {error}"
        return SharesRead(problem=problem)


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
        session = SessionSpec.model_validate(raw)
        impossible = problem_of(session)
        problem = f"session: {impossible}" if impossible else ""
    except ValidationError as error:
        problem = _first_problem("session", error)
    if problem:
        return Envelope(release=release, refusal=_refusal(raw, "InvalidEnvelope", problem))
    return Envelope(session, release)


def _first_problem(part: str, error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, (part, *first["loc"])))
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {first['msg']}, not {first['input']!r:.200}{more}"


def _refusal(raw: Mapping[str, Any], reason: str, message: str) -> Refusal:
    generation = raw.get("generation")
    return Refusal(str(raw.get("uid", "")), generation if isinstance(generation, int) else 0, reason, message)
