"""BatchStudy: how many samples each batch size needs, found by proxy trainings; one study serves every board."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from powertrain.api.base import API_VERSION, ApiModel, Bounded, Count, Moment, NotNegative, rules
from powertrain.api.conditions import Conditions
from powertrain.api.training_job import MAX_BATCH_SIZES, BatchSize, LearningRate
from powertrain.batching.study import Outcome

KIND = "BatchStudy"
PLURAL = "batchstudies"
MAX_SEEDS = 20
# A Job is named after its study and a batch size, and its pods add to that.
MAX_NAME = 44


class StudyPhase(StrEnum):
    """Where a study stands."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class BatchStudySpec(ApiModel):
    """What is trained to which accuracy, at which batch sizes, how often."""

    model_config = rules(
        (
            "self.batchSizes.all(b, self.batchSizes.exists_one(other, other == b))",
            "batchSizes must differ: write each size once",
        ),
        (
            "!has(self.unitSamples) || self.batchSizes.all(b, b <= self.unitSamples)",
            "unitSamples is what samples are counted in and can't be below the largest batch size",
        ),
        (
            "!has(self.unitSamples) || !has(self.datasetSamples) || self.unitSamples <= self.datasetSamples",
            "unitSamples can't be more than datasetSamples",
        ),
    )

    batch_sizes: Annotated[
        tuple[BatchSize, ...], Field(min_length=2, max_length=MAX_BATCH_SIZES, description="The sizes to compare.")
    ]
    seeds: Annotated[int, Field(ge=1, le=MAX_SEEDS, description="Runs of each size; their spread is reported.")] = 3
    target_accuracy: Annotated[float, Field(gt=0, description="What counts as reached, as the training reports it.")]
    unit_samples: Annotated[
        Bounded | None, Field(description="Samples are counted in multiples of this; single samples if absent.")
    ] = None
    dataset_samples: Annotated[Bounded | None, Field(description="Samples of the proxy data set.")] = None
    cap_samples: Annotated[Bounded, Field(description="A run that needs more than this has not converged.")] = 1_000_000
    learning_rate: Annotated[LearningRate, Field(description="Scaled to each batch size.")]
    weights: Annotated[
        str | None, Field(max_length=1024, description="Pre-trained weights that every run starts from.")
    ] = None
    parallelism: Annotated[int, Field(ge=1, le=64, description="Runs of one batch size at the same time.")] = 1
    backoff_limit: Annotated[int, Field(ge=0, le=20, description="How often a failed run is tried again.")] = 1
    ttl_seconds_after_finished: Annotated[
        Count | None,
        Field(description="Seconds after its end until it is deleted; absent: it stays until a user deletes it."),
    ] = None
    template: Annotated[
        dict[str, Any],
        Field(
            description="The pods of a run: a PodTemplateSpec, at most 64 KiB, kept as it is.",
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ]


class StudyRunStatus(ApiModel):
    """One training of a study."""

    batch_size: Annotated[BatchSize, Field(description="Samples per step.")]
    seed: Annotated[Count, Field(description="Which repetition.")]
    outcome: Annotated[Outcome, Field(description="How it ended.")]
    samples: Annotated[Count | None, Field(description="Samples until the target, or until it was given up.")] = None
    reason: Annotated[str, Field(max_length=256, description="Why it has not reached the target.")] = ""


class StudyResult(ApiModel):
    """What is known of one batch size."""

    batch_size: Annotated[BatchSize, Field(description="Samples per step.")]
    mean: Annotated[NotNegative | None, Field(description="Samples needed, mean over its runs.")] = None
    relative: Annotated[NotNegative | None, Field(description="As a share of the size that needs most: r.")] = None
    relative_spread: Annotated[NotNegative | None, Field(description="Standard deviation of r over the runs.")] = None
    message: Annotated[str, Field(max_length=512, description="Why it has no value.")] = ""


class BatchStudyStatus(ApiModel):
    """What the study has found."""

    observed_generation: Annotated[Count | None, Field(description="The spec that this is about.")] = None
    phase: Annotated[StudyPhase | None, Field(description="Its phase.")] = None
    message: Annotated[str, Field(max_length=1024, description="What happens or happened, in words.")] = ""
    relation: Annotated[str, Field(max_length=512, description="r per batch size, for people.")] = ""
    completed_at: Annotated[Moment | None, Field(description="When it ended.")] = None
    conditions: Annotated[Conditions, Field(description="Conditions.")] = ()
    runs: Annotated[
        tuple[StudyRunStatus, ...], Field(max_length=MAX_BATCH_SIZES * MAX_SEEDS, description="Run by run.")
    ] = ()
    results: Annotated[
        tuple[StudyResult, ...], Field(max_length=MAX_BATCH_SIZES, description="Batch size by batch size.")
    ] = ()


class BatchStudy(ApiModel):
    """Proxy trainings that find how many samples each batch size needs."""

    model_config = rules(
        (
            f"size(self.metadata.name) <= {MAX_NAME}",
            f"the name may have at most {MAX_NAME} characters: its Jobs and pods add to it",
        ),
        (
            "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == 'Pending' || "
            "self.spec.batchSizes == oldSelf.spec.batchSizes && self.spec.seeds == oldSelf.spec.seeds && "
            "self.spec.targetAccuracy == oldSelf.spec.targetAccuracy",
            "a study that has begun can't change: apply another one under another name",
        ),
    )

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: Annotated[dict[str, Any], Field(default_factory=dict)]
    spec: Annotated[BatchStudySpec, Field(description="Written by users.")]
    status: Annotated[BatchStudyStatus, Field(description="Written by the operator only.")] = BatchStudyStatus()
