"""The kinds that the operator sees and writes: where they live, which of them it watches, and what of them it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from powertrain.api.base import API_VERSION
from powertrain.api.resources import RESOURCES
from powertrain_kube import Object

Path = tuple[str, ...]
# Carried by every Job and pod that belongs to a TrainingJob; the value is that TrainingJob's uid.
JOB_UID_LABEL = "powertrain.io/training-job-uid"
# Agents label their Leases, so that no other Lease of the namespace has to be read.
AGENT_LABELS = {"app.kubernetes.io/name": "powertrain", "app.kubernetes.io/component": "agent"}


@dataclass(frozen=True)
class Kind:
    """One kind. Watched are the objects with all of `labels` (empty value: any), in all namespaces or the release's."""

    name: str
    api_version: str
    plural: str
    namespaced: bool = True
    labels: Mapping[str, str] | None = None
    in_release: bool = False
    keep: tuple[Path, ...] = ()  # if any, nothing else of the object is kept
    heavy: tuple[Path, ...] = ()  # kept packed, because hundreds of such objects are held

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of a collection, an object or its subresource on the API server."""
        root = ["", "apis" if "/" in self.api_version else "api", self.api_version]
        root += ["namespaces", namespace] if self.namespaced and namespace else []
        return "/".join([*root, self.plural, *filter(None, (name, subresource))])

    @property
    def selector(self) -> str:
        """Return the label selector of what is watched."""
        return ",".join(f"{name}={value}" if value else name for name, value in (self.labels or {}).items())

    def watches(self, body: Object, release: str) -> bool:
        """Say whether this object is among those that are watched."""
        metadata = body["metadata"]
        labels = metadata.get("labels") or {}
        here = not self.in_release or metadata.get("namespace") == release
        return here and all(
            name in labels and value in ("", labels[name]) for name, value in (self.labels or {}).items()
        )


# What is large and rarely looked at, by kind of ours.
_HEAVY: dict[str, tuple[Path, ...]] = {
    "TrainingJob": (("spec", "workload", "template"),),
    "BatchStudy": (("spec", "template"),),
    "PowerNode": (
        ("spec", "session", "prior"),
        ("status", "session", "result", "samples"),
        ("status", "session", "result", "front"),
    ),
    "PowerProfile": (("spec", "samples"), ("spec", "front"), ("status", "samples"), ("status", "front")),
}
_IDENTITY: tuple[Path, ...] = (("apiVersion",), ("kind",), ("metadata",))

OURS = tuple(
    Kind(each.kind, API_VERSION, each.plural, each.scope == "Namespaced", heavy=_HEAVY.get(each.kind, ()))
    for each in RESOURCES
)
JOB = Kind(
    "Job",
    "batch/v1",
    "jobs",
    labels={JOB_UID_LABEL: ""},
    keep=(*_IDENTITY, ("spec", "suspend"), ("spec", "backoffLimit"), ("status",)),
)
POD = Kind("Pod", "v1", "pods", labels={JOB_UID_LABEL: ""}, keep=(*_IDENTITY, ("spec", "nodeName"), ("status",)))
NODE = Kind(
    "Node",
    "v1",
    "nodes",
    namespaced=False,
    keep=(
        *_IDENTITY,
        ("spec", "unschedulable"),
        ("spec", "taints"),
        ("status", "conditions"),
        ("status", "allocatable"),
        ("status", "nodeInfo"),
    ),
)
LEASE = Kind("Lease", "coordination.k8s.io/v1", "leases", labels=AGENT_LABELS, in_release=True)
SERVICE = Kind("Service", "v1", "services")
EVENT = Kind("Event", "events.k8s.io/v1", "events")

WATCHED = (*OURS, JOB, POD, NODE, LEASE)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*WATCHED, SERVICE, EVENT)}


def kind_of(body: Object) -> Kind:
    """Return the kind of an object; only kinds of the table can be written."""
    kind = KINDS.get(body.get("kind", ""))
    if kind is None or kind.api_version != body.get("apiVersion"):
        known = ", ".join(f"{each.api_version} {each.name}" for each in KINDS.values())
        raise ValueError(f"the operator knows no {body.get('apiVersion')} {body.get('kind')}; it knows {known}")
    return kind
