"""The session's status as it is published, from what the loop knows."""

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
from powertrain_agent.governor.front import Point
from powertrain_agent.governor.session_file import SessionState

MESSAGE_LIMIT = 1024


class ResultOf:
    """Builds a session's result, anew only when something in it changes: it is published every second."""

    def __init__(self) -> None:
        self._seen: tuple[object, ...] | None = None
        self._result: SessionResult | None = None

    def __call__(self, state: SessionState) -> SessionResult | None:
        """Return the result so far."""
        seen = (
            state.spec.uid,
            list(state.reports),
            list(state.points),
            state.strategy,
            state.reference_version,
            state.validation,
            state.error,
        )
        if seen != self._seen:
            self._seen, self._result = seen, _result(state)
        return self._result


def status_of(
    state: SessionState,
    result: SessionResult | None = None,
    step_s: float | None = None,
    power_w: float | None = None,
) -> SessionStatus:
    """Return what to publish; `step_s` and `power_w` are what is observed now."""
    spec = state.spec
    observed = None if step_s is None and power_w is None else Figures(step_seconds=step_s, power_watts=power_w)
    return SessionStatus(
        uid=spec.uid,
        observed_generation=spec.generation,
        phase=state.phase,
        gate_open=state.gate_open,
        mode=None if state.mode is None else str(state.mode),
        reason=state.reason,
        message=state.message[:MESSAGE_LIMIT],
        verified=state.verified,
        boot_id=state.boot_id,
        runner_up=None if state.runner_up is None else str(state.runner_up),
        predicted=_figures(state.chosen),
        observed=observed,
        profiling=ProfilingProgress(
            measured=state.measured,
            planned=state.planned,
            seconds=state.profiling_s,
            corrections=state.corrections,
        ),
        training=TrainingProgress(
            steps=state.steps,
            samples=state.steps * spec.workload.batch_size,
            epoch=state.epochs,
            accuracy=state.accuracy,
        ),
        energy_joules=state.energy_j,
        violations=state.violations,
        conditions=state.conditions,
        result=result,
        restored=state.restored,
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


def _result(state: SessionState) -> SessionResult | None:
    if not state.reports and state.error is None:
        return None
    return SessionResult(
        strategy=state.strategy,
        reference=state.reference,
        reference_version=state.reference_version,
        validation_error=_validation(state.validation),
        samples=Samples.of(state.samples, state.spec.workload.batch_size),
        front=front_of(state.points),
        error=state.error,
    )


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
