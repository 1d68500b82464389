"""The session's status as it is published, from what is known of it."""

from __future__ import annotations

import numpy as np

from powertrain import ModeSpace
from powertrain.api.samples import MAX_FRONT, short
from powertrain.api.v1alpha1 import (
    Figures,
    Front,
    ModelError,
    ProfilingProgress,
    Samples,
    SessionResult,
    SessionStatus,
    TrainingProgress,
)
from powertrain.prediction import Prediction
from powertrain_agent.governing.record import SessionRecord
from powertrain_agent.planning.front import Point

MESSAGE_LIMIT = 1024
LARGEST = 2**53  # the largest whole number that every reader of JSON keeps


class ResultOf:
    """Builds a session's result, anew only when something in it changes: it is published every second."""

    def __init__(self) -> None:
        self._inputs: tuple[object, ...] | None = None
        self._result: SessionResult | None = None

    def __call__(self, record: SessionRecord) -> SessionResult | None:
        """Return the result so far."""
        inputs = (
            record.spec.uid,
            list(record.reports),
            list(record.points),
            record.strategy,
            record.reference_version,
            record.validation,
            record.error,
        )
        if inputs != self._inputs:
            self._inputs, self._result = inputs, _result(record)
        return self._result


def status_of(
    record: SessionRecord,
    result: SessionResult | None = None,
    step_s: float | None = None,
    power_w: float | None = None,
) -> SessionStatus:
    """Return what to publish; `step_s` and `power_w` are what is observed now."""
    spec = record.spec
    observed = None if step_s is None and power_w is None else Figures(step_seconds=step_s, power_watts=power_w)
    return SessionStatus(
        uid=spec.uid,
        observed_generation=spec.generation,
        phase=record.phase,
        gate_open=record.gate_open,
        mode=None if record.mode is None else str(record.mode),
        reason=record.reason,
        message=record.message[:MESSAGE_LIMIT],
        verified=record.verified,
        boot_id=record.boot_id,
        runner_up=None if record.runner_up is None else str(record.runner_up),
        predicted=_figures(record.chosen),
        observed=observed,
        profiling=ProfilingProgress(
            measured=record.measured,
            planned=record.planned,
            seconds=record.profiling_s,
            corrections=record.corrections,
        ),
        training=TrainingProgress(
            steps=record.steps,
            samples=min(record.steps * spec.workload.batch_size, LARGEST),
            epoch=record.epochs,
            accuracy=record.accuracy,
        ),
        energy_joules=record.energy_j,
        violations=record.violations,
        conditions=record.conditions,
        result=result,
        restored=record.restored,
    )


def bare_status(record: SessionRecord) -> SessionStatus:
    """Return what somebody waits for, without any figure: decisions, and whether the board is restored."""
    return SessionStatus(
        uid=record.spec.uid,
        observed_generation=record.spec.generation,
        phase=record.phase,
        gate_open=record.gate_open,
        mode=None if record.mode is None else str(record.mode),
        reason=record.reason,
        message=record.message[:MESSAGE_LIMIT],
        verified=record.verified,
        boot_id=record.boot_id,
        conditions=record.conditions,
        restored=record.restored,
    )


def _figures(point: Point | None) -> Figures | None:
    if point is None:
        return None
    return Figures(
        step_seconds=point.step_s,
        step_std_seconds=point.step_std_s,
        power_watts=point.power_w,
        power_std_watts=point.power_std_w,
    )


def _result(record: SessionRecord) -> SessionResult | None:
    if not record.reports and record.error is None:
        return None
    return SessionResult(
        strategy=record.strategy,
        reference=record.reference,
        reference_version=record.reference_version,
        validation_error=_validation(record.validation),
        samples=_samples(record),
        front=front_of(record.points),
        error=record.error,
    )


def _samples(record: SessionRecord) -> Samples:
    """Return what was measured; modes that were left early and not measured since are told apart."""
    whole = [report.sample for report in record.reports if report.sample is not None and not report.left_early]
    modes = {sample.mode for sample in whole}
    early = {report.mode: left_sample for report in record.reports if (left_sample := report.early()) is not None}
    unmeasured = (left_sample for mode, left_sample in early.items() if mode not in modes)
    return Samples.of(whole, record.spec.workload.batch_size, unmeasured)


def _validation(percent: list[float] | None) -> ModelError | None:
    if percent is None:
        return None
    return ModelError(time_percent=short(percent[0]), power_percent=short(percent[1]))


def front_of(points: list[Point]) -> Front:
    """Return the points as the columns of the API, fastest first."""
    if not points:
        return Front()
    by_mode = {point.mode: point for point in sorted(points, key=lambda p: p.step_s)[:MAX_FRONT]}
    space = ModeSpace.covering(list(by_mode))
    rows = [by_mode[mode] for mode in space]
    columns = ("step_s", "step_std_s", "power_w", "power_std_w")
    prediction = Prediction(*(np.array([getattr(point, name) for point in rows]) for name in columns))
    return Front.of(space, prediction, (space.index(mode) for mode in by_mode))
