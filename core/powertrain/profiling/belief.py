"""Belief: what the physics model makes of a history, over every mode of the space; shared by safety, planning and
choice.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from powertrain.physics.design import low_power_anchor
from powertrain.physics.predictor import PhysicsPredictor
from powertrain.physics.reference import PhysicsReference
from powertrain.prediction import Prediction
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.samples import SampleTable
from powertrain.space import BoolArray, FloatArray, IntArray, as_matrix

# How many samples' worth of trust the prior's own widths get, and the largest deviation that may widen them.
TRUST_BEFORE_NARROWING, TRUST_BEFORE_WIDENING, CALIBRATION_CLIP = 10.0, 4.0, 3.0
# Relative noise of a time that was not measured: far wider than any prior, and still a number.
UNTIMED_NOISE = 30.0


class Belief:
    """Fits the physics predictor once per history and remembers the last one."""

    def __init__(self, problem: Problem, reference: PhysicsReference | None) -> None:
        self._problem = problem
        self.reference = reference
        self._fitted: tuple[History, PhysicsPredictor, Prediction] | None = None

    def informed(self, history: History) -> bool:
        """Say whether there is any sample of this workload to learn from, be it of another batch size."""
        return len(history.modes) > 0 or len(self._problem.elsewhere) > 0

    def predictor(self, history: History) -> PhysicsPredictor:
        """Return the predictor fitted to the history."""
        return self._fit(history)[1]

    def prediction(self, history: History) -> Prediction:
        """Return time and power of every mode of the space as the model sees them."""
        return self._fit(history)[2]

    def posterior(self, history: History) -> Prediction:
        """Return the prediction with measured modes at what was measured, each with the uncertainty that is left.

        A measurement without noise is exact. With noise, model and measurement are two opinions of the same mode and
        are weighed by
        their variances; the model has no say about a sample that it had to drop as an outlier.
        """
        model = self.prediction(history)
        if not len(history.modes):
            return model
        alone = self.predictor(history).outliers_
        timed_count = len(history.modes)
        time_s, time_std = _weighed(
            model.time_s, model.time_std_s, history.rows, history.step_s, history.noise, alone[:timed_count]
        )
        estimates = list(history.estimates.values())
        power_w, power_std = _weighed(
            model.power_w,
            model.power_std_w,
            np.append(history.rows, history.estimate_rows),
            np.append(history.power_w, [estimate.power_w for estimate in estimates]),
            np.append(history.power_noise, [estimate.noise for estimate in estimates]),
            np.append(alone[:timed_count], alone[len(alone) - len(estimates) :]),
        )
        return Prediction(time_s, time_std, power_w, power_std)

    def measured_rows(self, history: History) -> BoolArray:
        """Return which rows of the space were measured."""
        mask = np.zeros(len(self._problem.space), dtype=np.bool_)
        mask[history.rows[history.rows >= 0]] = True
        return mask

    def start(self, allowed: BoolArray) -> int:
        """Return the allowed row of least power by the reference alone: where a careful exploration begins."""
        rows = np.flatnonzero(allowed)
        return int(rows[low_power_anchor(self.reference, self._problem.modes[rows])])

    def _fit(self, history: History) -> tuple[History, PhysicsPredictor, Prediction]:
        if self._fitted is None or self._fitted[0] is not history:
            modes, size, width = self._problem.modes, self._problem.work.batch_size, self._problem.prior_width
            predictor = PhysicsPredictor(
                self.reference, seed=self._problem.seed, space=modes, batch_size=size, prior_width=width
            )
            predictor.fit(*self._samples(history))
            self._fitted = (history, predictor, calibrated(predictor, predictor.predict(modes)))
        return self._fitted

    def _samples(self, history: History) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return modes, times, powers and the noise of both to learn from; with batch sizes where there are several.

        What was measured here comes first, then other batch sizes, then powers without a time.
        """
        parts = [(history.modes, history.step_s, history.power_w, history.noise, history.power_noise)]
        several = len(self._problem.elsewhere) > 0
        if several:
            other = SampleTable.of(self._problem.elsewhere)
            noise = np.full(len(other), self._problem.noise)
            parts = [(self._sized(history.modes), *parts[0][1:])]
            parts.append((np.column_stack([other.matrix, other.batch_size]), other.step_s, other.power_w, noise, noise))
        if history.estimates:
            parts.append(self._untimed(history, np.concatenate([part[1] for part in parts]), several))
        columns = [np.concatenate([part[k] for part in parts]) for k in range(5)]
        return columns[0], columns[1], columns[2], columns[3], columns[4]

    def _sized(self, modes: FloatArray) -> FloatArray:
        return np.column_stack([modes, np.full(len(modes), float(self._problem.work.batch_size))])

    def _untimed(
        self, history: History, step_s: FloatArray, several: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the modes of which only power is known: any time of the workload's size, so noisy that it says
        nothing.
        """
        modes = as_matrix(list(history.estimates))
        count = len(modes)
        middle = float(np.exp(np.log(step_s).mean())) if len(step_s) else 1.0
        powers = np.array([estimate.power_w for estimate in history.estimates.values()])
        noises = np.array([estimate.noise for estimate in history.estimates.values()])
        return (
            self._sized(modes) if several else modes,
            np.full(count, middle),
            powers,
            np.full(count, UNTIMED_NOISE),
            noises,
        )


def calibrated(predictor: PhysicsPredictor, prediction: Prediction) -> Prediction:
    """Widen or narrow the intervals by how well the samples themselves were foretold by the others (leave-one-out).

    The prior's widths are for any workload; this one may be smoother or rougher. Pseudo-samples that fit exactly as
    expected keep the factor near one at first, longer before it may narrow an interval than before it widens one.
    """
    is_timed = predictor.fitted.samples.noise < UNTIMED_NOISE
    z = np.minimum(np.abs(predictor.fitted.leave_one_out_z()), CALIBRATION_CLIP)
    squares, count = (np.where(is_timed, z, 0.0) ** 2).sum(axis=1), is_timed.sum(axis=1)
    trust = np.where(squares < count, TRUST_BEFORE_NARROWING, TRUST_BEFORE_WIDENING)
    time_scale, power_scale = np.sqrt((trust + squares) / (trust + count))
    return replace(
        prediction, time_std_s=prediction.time_std_s * time_scale, power_std_w=prediction.power_std_w * power_scale
    )


def _weighed(
    model: FloatArray,
    model_std: FloatArray,
    all_rows: IntArray,
    measured: FloatArray,
    relative: FloatArray,
    alone: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    value, std = model.copy(), model_std.copy()
    inside = all_rows >= 0
    rows = all_rows[inside]
    noise = (measured * relative)[inside]
    trust = np.where(alone[inside], 0.0, noise**2 / (noise**2 + model_std[rows] ** 2))
    value[rows] = trust * model[rows] + (1.0 - trust) * measured[inside]
    std[rows] = np.sqrt(1.0 - trust) * noise
    return value, std
