"""The kinds that the cluster serves: names, scope and columns; with the models everything a CRD needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from powertrain.api import batch_study, power_budget, power_node, power_policy, power_profile, training_job
from powertrain.api.base import GROUP, VERSION, ApiModel


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
    # Whether the operator alone writes the spec, and a part of it always as a whole.
    spec_has_one_writer: bool = False
    # Whether the status is written apart from the rest, as where another one writes it.
    has_status_apart: bool = True

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
    power_node.PowerNode,
    power_node.KIND,
    power_node.PLURAL,
    "pn",
    "Cluster",
    (
        Column("Device", ".status.device.name", description="The board."),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status', description="Whether the agent serves it."),
        Column("Job", ".spec.session.job.name", description="The TrainingJob that has the node."),
        Column("Phase", ".status.session.phase", description="Phase of its session."),
        Column("Watts", ".status.figures.watts", "number", description="Power now."),
        Column("Limit", ".spec.session.limits.powerWatts", "number", description="Power limit of the session."),
        Column("Mode", ".status.session.mode", description="The applied power mode."),
        Column("Why", ".status.session.reason", description="Why this mode."),
        Column("Share", ".status.shareWatts", "number", always=False, description="Its share of a PowerBudget."),
        Column("Step", ".status.figures.stepSeconds", "number", always=False, description="Seconds of a step."),
        Column("Celsius", ".status.figures.temperatureCelsius", "number", always=False, description="Hottest zone."),
        Column("L4T", ".status.device.l4t", always=False, description="Release of Jetson Linux."),
        Column("Agent", ".status.agent.version", always=False, description="Release of the agent."),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    spec_has_one_writer=True,
)

TRAINING_JOBS = Resource(
    training_job.TrainingJob,
    training_job.KIND,
    training_job.PLURAL,
    "tj",
    "Namespaced",
    (
        Column("Phase", ".status.phase", description="Its phase."),
        Column("Nodes", ".status.where", description="Where it runs."),
        Column("Watts", ".status.powerWatts", "number", description="Power now, all nodes together."),
        Column("Limit", ".spec.constraints.powerWatts", "number", description="Power limit of each node."),
        Column("Done", ".status.progress.percent", "number", description="Percent of the training."),
        Column("Remaining", ".status.remaining", description="Time until the end."),
        Column("Message", ".status.message", always=False, description="What it waits for or what happened."),
        Column("Joules", ".status.energyJoules", "number", always=False, description="Energy so far."),
        Column("Attempt", ".status.attempt", "integer", always=False, description="How often it was started."),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    ("powertrain", "all"),
)

POWER_PROFILES = Resource(
    power_profile.PowerProfile,
    power_profile.KIND,
    power_profile.PLURAL,
    "pprof",
    "Namespaced",
    (
        Column("Workload", ".spec.workload", description="What was trained."),
        Column("Batch", ".spec.batchSize", "integer", description="Samples per step."),
        Column("Device", ".spec.device.name", description="The kind of board."),
        Column("L4T", ".spec.device.l4t", description="Release of Jetson Linux."),
        Column("Modes", ".status.measured", "integer", description="Modes measured."),
        Column("Strategy", ".spec.strategy", description="Who chose the modes."),
        Column("Uses", ".status.uses", "integer", description="Sessions that started from it."),
        Column("Node", ".spec.node", always=False, description="The node that measured last."),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    spec_has_one_writer=True,
    has_status_apart=False,
)

POWER_POLICIES = Resource(
    power_policy.PowerPolicy,
    power_policy.KIND,
    power_policy.PLURAL,
    "ppol",
    "Cluster",
    (
        Column("Watts", ".spec.maxWatts", "number", description="Most mean power of a job."),
        Column("Hard", ".spec.hardMaxWatts", "number", description="Highest single reading."),
        Column("Cores", ".spec.cpuCores", description="Whether cores may be switched off."),
        Column("Nodes", ".status.nodes", "integer", description="PowerNodes that it selects."),
        Column("Disabled", ".spec.disabled", description="Whether the nodes take no jobs."),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)

POWER_BUDGETS = Resource(
    power_budget.PowerBudget,
    power_budget.KIND,
    power_budget.PLURAL,
    "pb",
    "Cluster",
    (
        Column("Cap", ".status.capWatts", "number", description="The cap of now."),
        Column("Allocated", ".status.allocatedWatts", "number", description="Reserved for boards and other devices."),
        Column("Drawn", ".status.drawnWatts", "number", description="What the boards' sensors say together."),
        Column("Idle", ".status.idleWatts", "number", description="Reserved for boards without a job."),
        Column("Jobs", ".status.jobs", "integer", description="TrainingJobs on its boards."),
        Column("Waiting", ".status.waiting", "integer", description="TrainingJobs that wait for its power."),
        Column("Goal", ".spec.goal", always=False, description="What the watts are shared out for."),
        Column("Source", ".status.capSource", always=False, description="Where the cap of now comes from."),
        Column("Exceeded", ".status.exceeded", "integer", always=False, description="How often too much was drawn."),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)

BATCH_STUDIES = Resource(
    batch_study.BatchStudy,
    batch_study.KIND,
    batch_study.PLURAL,
    "bs",
    "Namespaced",
    (
        Column("Phase", ".status.phase", description="Its phase."),
        Column("Target", ".spec.targetAccuracy", "number", description="Accuracy to reach."),
        Column("Relation", ".status.relation", description="Samples needed, relative to the size that needs most."),
        Column("Message", ".status.message", always=False, description="What happens or happened."),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)

RESOURCES = (TRAINING_JOBS, POWER_NODES, POWER_PROFILES, POWER_POLICIES, BATCH_STUDIES, POWER_BUDGETS)
