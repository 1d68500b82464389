"""The kinds that the cluster serves: names, scope and columns; with the models everything a CRD needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from powertrain.api.base import GROUP, VERSION, ApiModel
from powertrain.api.power_node import KIND, PLURAL, PowerNode


@dataclass(frozen=True)
class Column:
    """One column of `kubectl get`; those that are not `always` come with `-o wide`."""

    name: str
    path: str
    type: Literal["string", "number", "integer", "date"] = "string"
    always: bool = True
    description: str = ""


@dataclass(frozen=True)
class Resource:
    """One kind."""

    model: type[ApiModel]
    kind: str
    plural: str
    short_name: str
    scope: Literal["Cluster", "Namespaced"]
    columns: tuple[Column, ...]
    categories: tuple[str, ...] = ("powertrain",)

    @property
    def crd_name(self) -> str:
        """Return the name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """Return the path of a collection, an object or its subresource on the API server."""
        parts = ["", "apis", GROUP, VERSION]
        parts += ["namespaces", namespace] if namespace else []
        return "/".join([*parts, self.plural, *filter(None, (name, subresource))])


POWER_NODES = Resource(
    PowerNode,
    KIND,
    PLURAL,
    "pn",
    "Cluster",
    (
        Column("Device", ".status.device.name", description="The board."),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status', description="Whether the agent serves it."),
        Column("Job", ".spec.session.job.name", description="The TrainingJob that has the node."),
        Column("Phase", ".status.session.phase", description="Where its session stands."),
        Column("Watts", ".status.figures.watts", "number", description="Power now."),
        Column("Limit", ".spec.session.limits.powerWatts", "number", description="Power limit of the session."),
        Column("Mode", ".status.session.mode", description="The applied power mode."),
        Column("Why", ".status.session.reason", description="Why this mode."),
        Column("Step", ".status.figures.stepSeconds", "number", always=False, description="Seconds of a step."),
        Column("Celsius", ".status.figures.temperatureCelsius", "number", always=False, description="Hottest zone."),
        Column("L4T", ".status.device.l4t", always=False, description="Release of Jetson Linux."),
        Column("Agent", ".status.agent.version", always=False, description="Release of the agent."),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)

RESOURCES = (POWER_NODES,)
