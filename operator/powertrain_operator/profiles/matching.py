"""PowerProfiles: which of them fits a job on a board, what an envelope takes from it, and how one is written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from powertrain.api.base import API_VERSION
from powertrain.api.power_profile import KIND
from powertrain.api.v1alpha1 import (
    DeviceInfo,
    PowerProfileSpec,
    PowerProfileStatus,
    Prior,
    PriorMatch,
    SessionResult,
    moment,
)

Object = dict[str, Any]
HASH_DIGITS = 16


@dataclass(frozen=True)
class ProfileKey:
    """What must be equal for a profile to hold."""

    namespace: str
    workload: str
    batch_size: int
    template_hash: str
    device: DeviceInfo

    @property
    def name(self) -> str:
        """Return the object's name: readable, and different for different keys."""
        device = fingerprint(self.device)
        digest = hashlib.sha256(json.dumps([self.batch_size, self.template_hash, device]).encode()).hexdigest()[:10]
        readable = f"{self.workload}-b{self.batch_size}-{self.device.name or 'board'}"
        return f"{re.sub(r'[^a-z0-9.-]+', '-', readable.lower()).strip('-.')[:200]}-{digest}"


@dataclass(frozen=True)
class StoredProfile:
    """A profile of the workload at hand; without a spec it can't be read."""

    name: str
    uid: str
    spec: PowerProfileSpec | None
    damage: str = ""


@dataclass(frozen=True)
class ProfileMatch:
    """A profile that can be used, or why the nearest one can't."""

    name: str = ""
    prior: Prior | None = None
    spec: PowerProfileSpec | None = None
    problem: str = ""


def fingerprint(device: DeviceInfo) -> list[str]:
    """Return what a profile depends on of a board."""
    return [device.module, device.l4t, device.tables, device.tpc_mask, device.core_policy, device.total_rail]


def template_hash(template: Object) -> str:
    """Return a hash of the pods' template, the same for the same content in any order of keys."""
    canonical = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:HASH_DIGITS]


def find(profiles: Iterable[StoredProfile], key: ProfileKey) -> ProfileMatch:
    """Return the profile for a key: the same one, else the nearest one of the workload on the same kind of board."""
    problem, warm = "", None
    for profile in profiles:
        name, spec = profile.name, profile.spec
        if spec is None:
            problem = f"PowerProfile {name} is damaged and not used: {profile.damage}"
            continue
        if not spec.samples.step_seconds or spec.batch_size != key.batch_size:
            continue
        if is_same(spec, key) and not is_stale(spec):
            return ProfileMatch(name, Prior(match=PriorMatch.EXACT, samples=spec.samples), spec)
        # Modes of other tables can't be set here; of another kind of board they would teach the wrong thing.
        if (spec.device.module, spec.device.tables) == (key.device.module, key.device.tables):
            warm = ProfileMatch(name, Prior(match=PriorMatch.WARM, samples=spec.samples), spec, _why(spec, key))
    return warm or ProfileMatch(problem=problem)


def is_same(spec: PowerProfileSpec, key: ProfileKey) -> bool:
    """Say whether a profile is of this template on this kind of board, at whichever batch size."""
    return spec.template_hash == key.template_hash and fingerprint(spec.device) == fingerprint(key.device)


def is_stale(spec: PowerProfileSpec) -> bool:
    """Say whether a check at another batch size found that it does not hold any more."""
    return spec.corrected is not None and spec.corrected.stale


def _why(spec: PowerProfileSpec, key: ProfileKey) -> str:
    """Say in words why a profile is only a start."""
    if is_same(spec, key) and spec.corrected is not None:
        return f"a check at batch size {spec.corrected.batch_size} at {spec.corrected.at} found other times or power"
    if spec.template_hash != key.template_hash:
        return "the pods' template is another one"
    there, here = fingerprint(spec.device), fingerprint(key.device)
    names = ("module", "L4T release", "frequency tables", "TPC mask", "core policy", "total power rail")
    return ", ".join(f"{n} {a or '?'} → {b or '?'}" for n, a, b in zip(names, there, here, strict=True) if a != b)


def same_kind(profiles: Iterable[StoredProfile], key: ProfileKey) -> list[tuple[str, str, PowerProfileSpec]]:
    """Return name, uid and spec of the profiles that differ from a key in the batch size at most."""
    return [(each.name, each.uid, each.spec) for each in profiles if each.spec is not None and is_same(each.spec, key)]


def fastest_step_s(spec: PowerProfileSpec, limit_w: float | None) -> float | None:
    """Return the least step time that was measured within a limit."""
    samples, unsafe = spec.samples, set(spec.samples.unsafe)
    pairs = zip(samples.step_seconds, samples.power_watts, strict=True)
    within = [s for i, (s, w) in enumerate(pairs) if i not in unsafe and (limit_w is None or w <= limit_w)]
    return min(within, default=None)


def body(
    key: ProfileKey, result: SessionResult, node: str, now: datetime, status: PowerProfileStatus | None = None
) -> Object:
    """Return the profile of a session's result, to be applied."""
    spec = PowerProfileSpec(
        workload=key.workload,
        batch_size=key.batch_size,
        template_hash=key.template_hash,
        device=key.device,
        strategy=result.strategy,
        reference=result.reference,
        reference_version=result.reference_version,
        validation_error=result.validation_error,
        node=node,
        measured_at=moment(now),
        samples=result.samples,
        front=result.front,
    )
    measured = len(result.samples.step_seconds)
    return whole(
        key.name, key.namespace, spec, (status or PowerProfileStatus()).model_copy(update={"measured": measured})
    )


def whole(name: str, namespace: str, spec: PowerProfileSpec, status: PowerProfileStatus) -> Object:
    """Return the object to be applied."""
    return {**use_patch(name, namespace, status), "spec": spec.wire()}


def use_patch(name: str, namespace: str, status: PowerProfileStatus) -> Object:
    """Return what is applied where only its use is counted."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status.wire()}
