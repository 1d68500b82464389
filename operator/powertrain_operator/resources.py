"""The kinds that the operator sees and writes: where they live, which of them it watches, and what of them it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from powertrain.api.base import API_VERSION
from powertrain.api.resources import RESOURCES
from powertrain_kube import Object
from powertrain_operator.bounds import MAX_TEMPLATE_BYTES, Path

# Every Job and pod that belongs to a TrainingJob has this label; the value is that TrainingJob's uid.
JOB_UID_LABEL = "powertrain.io/training-job-uid"
# Agents label their Leases, so that no other Lease of the namespace has to be read.
AGENT_LABELS = {"app.kubernetes.io/name": "powertrain", "app.kubernetes.io/component": "agent"}


@dataclass(frozen=True)
class ResourceType:
    """One kind. Watched are the objects with all of `labels` (empty value: any), in all namespaces or the release's."""

    name: str
    api_version: str
    plural: str
    namespaced: bool = True
    labels: Mapping[str, str] | None = None
    in_release: bool = False
    keep: tuple[Path, ...] = ()  # if any, nothing else of the object is kept
    heavy: tuple[Path, ...] = ()  # kept packed, because hundreds of such objects are held
    by_tenants: bool = False  # whoever may train writes these, of any size and shape that the API server accepts
    bounded: Mapping[Path, int] = field(default_factory=dict)  # parts without a bound of the server's, in bytes

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
        ("status", "history"),
    ),
    "PowerProfile": (("spec", "samples"), ("spec", "front")),
}
_BOUNDED: dict[str, dict[Path, int]] = {
    "TrainingJob": {("spec", "workload", "template"): MAX_TEMPLATE_BYTES, ("spec", "placement"): MAX_TEMPLATE_BYTES},
    "BatchStudy": {("spec", "template"): MAX_TEMPLATE_BYTES},
}
_IDENTITY: tuple[Path, ...] = (("apiVersion",), ("kind",), ("metadata",))

OURS = tuple(
    ResourceType(
        each.kind,
        API_VERSION,
        each.plural,
        each.scope == "Namespaced",
        heavy=_HEAVY.get(each.kind, ()),
        by_tenants=each.kind in _BOUNDED,
        bounded=_BOUNDED.get(each.kind, {}),
    )
    for each in RESOURCES
)
JOB = ResourceType(
    "Job",
    "batch/v1",
    "jobs",
    labels={JOB_UID_LABEL: ""},
    keep=(*_IDENTITY, ("spec", "suspend"), ("spec", "backoffLimit"), ("status",)),
    by_tenants=True,
)
POD = ResourceType(
    "Pod",
    "v1",
    "pods",
    labels={JOB_UID_LABEL: ""},
    keep=(*_IDENTITY, ("spec", "nodeName"), ("status",)),
    by_tenants=True,
)
NODE = ResourceType(
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
LEASE = ResourceType("Lease", "coordination.k8s.io/v1", "leases", labels=AGENT_LABELS, in_release=True)
PRIORITY_CLASS = ResourceType(
    "PriorityClass",
    "scheduling.k8s.io/v1",
    "priorityclasses",
    namespaced=False,
    keep=(*_IDENTITY, ("value",), ("globalDefault",)),
)
SERVICE = ResourceType("Service", "v1", "services")
EVENT = ResourceType("Event", "events.k8s.io/v1", "events")

WATCHED_RESOURCES = (*OURS, JOB, POD, NODE, LEASE, PRIORITY_CLASS)
RESOURCE_BY_KIND: Mapping[str, ResourceType] = {kind.name: kind for kind in (*WATCHED_RESOURCES, SERVICE, EVENT)}


def resource_of(body: Object) -> ResourceType:
    """Return the kind of an object; only kinds of the table can be written."""
    kind = RESOURCE_BY_KIND.get(body.get("kind", ""))
    if kind is None or kind.api_version != body.get("apiVersion"):
        names = ", ".join(f"{each.api_version} {each.name}" for each in RESOURCE_BY_KIND.values())
        raise ValueError(f"the operator knows no {body.get('apiVersion')} {body.get('kind')}; it knows {names}")
    return kind
