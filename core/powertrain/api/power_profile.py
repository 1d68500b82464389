"""PowerProfile: what was measured of one workload on one kind of board; the operator alone writes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from powertrain.api.base import API_VERSION, ApiModel, Count, Moment, Positive
from powertrain.api.power_node import DeviceInfo
from powertrain.api.samples import Front, Samples
from powertrain.api.session import ModelError

KIND = "PowerProfile"
PLURAL = "powerprofiles"
# As many boards of one kind as may train one job at the same time.
MAX_SOURCES = 64


class Correction(ApiModel):
    """What checks at other batch sizes changed in these samples: they were not measured again, but moved with it."""

    batch_size: Annotated[int, Field(ge=1, description="The batch size at which modes were measured again last.")]
    at: Annotated[Moment, Field(description="When that was.")]
    time_factor: Annotated[Positive, Field(description="How many times as long steps take as measured, in the middle.")]
    power_factor: Annotated[Positive, Field(description="How many times the measured power, in the middle.")]
    stale: Annotated[
        bool,
        Field(description="Modes changed against each other, or power did: only a start, until it is measured again."),
    ] = False


class PowerProfileSpec(ApiModel):
    """Whose profile it is (the key), and what was measured. Models are rebuilt from the samples, never stored."""

    workload: Annotated[str, Field(max_length=253, description="Name of the workload.")]
    batch_size: Annotated[int, Field(ge=1, description="Samples per step.")] = 1
    template_hash: Annotated[str, Field(max_length=64, description="Hash of the pods' template.")] = ""
    device: Annotated[DeviceInfo, Field(description="The kind of board, its release of Jetson Linux and tables.")]
    strategy: Annotated[str, Field(max_length=63, description="The strategy that chose the modes.")] = ""
    reference: Annotated[str | None, Field(max_length=253, description="The reference model it started from.")] = None
    reference_version: Annotated[
        str | None, Field(max_length=63, description="Which data, and which release, that reference was made from.")
    ] = None
    validation_error: Annotated[
        ModelError | None, Field(description="The strategy's own validation; absent where it has none.")
    ] = None
    node: Annotated[str, Field(max_length=253, description="The node that measured last.")] = ""
    measured_at: Annotated[Moment | None, Field(description="When that was.")] = None
    samples: Annotated[Samples, Field(description="Measured modes, those left early included.")] = Samples()
    front: Annotated[Front, Field(description="Modes that none beats at the mean or at mean + 2σ.")] = Front()
    corrected: Annotated[Correction | None, Field(description="What checks at other batch sizes changed since.")] = None


class PowerProfileStatus(ApiModel):
    """How it is used."""

    measured: Annotated[Count, Field(description="Modes measured.")] = 0
    uses: Annotated[
        Count, Field(description="Sessions that started from it; those that renew it are counted then.")
    ] = 0
    last_used_at: Annotated[Moment | None, Field(description="When the last of them began.")] = None
    sources: Annotated[
        tuple[Annotated[str, Field(max_length=160)], ...],
        Field(
            max_length=MAX_SOURCES,
            description="The sessions that wrote it last, each with its number of modes and corrections.",
        ),
    ] = ()


class PowerProfile(ApiModel):
    """What was measured of one workload on one kind of board, beside its jobs."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: Annotated[dict[str, Any], Field(default_factory=dict)]
    spec: Annotated[PowerProfileSpec, Field(description="Written by the operator only.")]
    status: Annotated[PowerProfileStatus, Field(description="Written by the operator only.")] = PowerProfileStatus()
