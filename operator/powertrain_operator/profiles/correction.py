"""The check of tables over batch sizes: a profile that reads otherwise than before corrects those at other sizes.

A session that measures points again (`validateEverySeconds`, drift, a profile that does not fit) knows its own batch
size only. What moved there has moved at the others too: they are corrected by the same factors, and where modes changed
against each other, or power changed, they are only a starting point until they are measured again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from powertrain.api.power_profile import Correction
from powertrain.api.samples import short
from powertrain.api.v1alpha1 import Front, PowerProfileSpec, Samples, moment
from powertrain.batching.validation import Validation, validate
from powertrain.modes import PowerMode
from powertrain.samples import Sample, SampleTable


@dataclass(frozen=True)
class TableCheck:
    """Profiles that have to be written anew, by name, and what a user is told about it."""

    profiles: Mapping[str, PowerProfileSpec] = field(default_factory=dict)
    stale: bool = False
    message: str = ""


def check(
    before: PowerProfileSpec,
    now: PowerProfileSpec,
    others: Mapping[str, PowerProfileSpec],
    at: datetime,
    revisited: bool = False,
) -> TableCheck:
    """Compare a profile with what it was, and correct the others, those apart that were measured since.

    `revisited`: some of its points were measured again, and all the others judged by them.
    """
    fresh = _fresh(before, now, revisited)
    older = {
        name: spec for name, spec in others.items() if spec.samples.step_seconds and _since(spec) <= _since(before)
    }
    # A profile that was itself moved by a check is no measurement to compare with.
    if not fresh or not older or before.corrected is not None:
        return TableCheck()
    validation = validate(SampleTable.of(before.samples.samples()), SampleTable.of(fresh))
    if not validation.changed:
        return TableCheck()
    corrected = {name: _corrected(spec, validation, now.batch_size, at) for name, spec in older.items()}
    sizes = ", ".join(str(spec.batch_size) for spec in sorted(corrected.values(), key=lambda spec: spec.batch_size))
    what = "only a starting point until they are measured again" if validation.reprofile else "corrected by that"
    words = (
        f"at batch size {now.batch_size} time is × {validation.common_time:.3f}, power × {validation.common_power:.3f}"
    )
    beside = f", modes up to {validation.relative:.0%} beside it" if validation.reprofile else ""
    return TableCheck(
        corrected, validation.reprofile, f"{words}{beside}: the profiles of batch sizes {sizes} are {what}"
    )


def _since(spec: PowerProfileSpec) -> str:
    """Return since when a profile reads as it does; the API's times sort as text."""
    return max(spec.measured_at or "", spec.corrected.at if spec.corrected else "")


def _fresh(before: PowerProfileSpec, now: PowerProfileSpec, revisited: bool) -> list[Sample]:
    """Return the latest samples of modes known before, all or those that read otherwise: the rest is merely kept."""
    stored_samples, latest = _latest(before), _latest(now)
    both = [(stored_samples[mode], sample) for mode, sample in latest.items() if mode in stored_samples]
    return [b for a, b in both if revisited or (a.step_s, a.power_w) != (b.step_s, b.power_w)]


def _latest(spec: PowerProfileSpec) -> dict[PowerMode, Sample]:
    return {sample.mode: sample for sample in spec.samples.samples() if not (sample.unsafe or sample.throttled)}


def _corrected(spec: PowerProfileSpec, validation: Validation, batch_size: int, at: datetime) -> PowerProfileSpec:
    table = SampleTable.of(spec.samples.samples())
    corrected = validation.corrected(table)
    time, power = (
        float(np.median(ratio)) for ratio in (corrected.step_s / table.step_s, corrected.power_w / table.power_w)
    )
    earlier = spec.corrected
    correction = Correction(
        batch_size=batch_size,
        at=moment(at),
        time_factor=short(time * (earlier.time_factor if earlier else 1.0)),
        power_factor=short(power * (earlier.power_factor if earlier else 1.0)),
        stale=validation.reprofile or (earlier is not None and earlier.stale),
    )
    early = (each.scaled(time, power) for each in spec.samples.early.samples())
    samples, front = Samples.of(corrected, spec.batch_size, early), _scaled(spec.front, time, power)
    return spec.model_copy(update={"samples": samples, "front": front, "corrected": correction})


def _scaled(front: Front, time: float, power: float) -> Front:
    factors = {"step_seconds": time, "step_std_seconds": time, "power_watts": power, "power_std_watts": power}
    return front.model_copy(
        update={name: tuple(short(value * by) for value in getattr(front, name)) for name, by in factors.items()}
    )
