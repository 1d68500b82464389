"""Names that the operator gives and looks for: labels, annotations, the finalizer, kinds."""

from __future__ import annotations

from powertrain.api.base import GROUP
from powertrain_operator.resources import JOB_UID_LABEL

FINALIZER = f"{GROUP}/restore"

# Labels of what belongs to a TrainingJob.
JOB_UID = JOB_UID_LABEL
JOB_NAME = f"{GROUP}/training-job"
REPLICA = f"{GROUP}/replica"
ATTEMPT = f"{GROUP}/attempt"

# A node with this label set to true gets an agent.
JETSON = f"{GROUP}/jetson"
# A node with this label takes no jobs.
IGNORE = f"{GROUP}/ignore"

# Annotations of a Node: three are the operator's, two are an input.
POWER_MODE = f"{GROUP}/power-mode"
POWER_BUDGET = f"{GROUP}/power-budget-watts"
TRAINING_JOB = f"{GROUP}/training-job"
ON_NODES = (TRAINING_JOB, POWER_BUDGET, POWER_MODE)
AVAILABLE_WATTS = f"{GROUP}/available-watts"
AVAILABLE_WATTS_AT = f"{GROUP}/available-watts-at"

# Inputs on a PowerBudget beside those two: the charge of a battery, and when it was measured.
BATTERY_PERCENT = f"{GROUP}/battery-percent"
BATTERY_PERCENT_AT = f"{GROUP}/battery-percent-at"
# An administrator's word, on a Node that is NotReady: its board has no power.
POWERED_OFF = f"{GROUP}/powered-off"
# A Node's device, where no agent says it.
DEVICE = f"{GROUP}/device"

# Annotation of a PowerNode: somebody asks for a restore.
RELEASE_REQUESTED = f"{GROUP}/release-requested"
