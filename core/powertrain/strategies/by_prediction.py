"""How strategies choose that predict every mode from random ones: by the mean as the papers do, or by its error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from powertrain.choosing import Choice, choose
from powertrain.feasibility import break_probability
from powertrain.objectives import Limits
from powertrain.pareto import pareto_front
from powertrain.prediction import Prediction
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.space import BoolArray, FloatArray
from powertrain.strategies.base import Proposal, measured_prediction, measured_rows, select_measured

# From this risk on a mode may be as likely over its limit as within it: the papers' choice by the mean.
BY_THE_MEAN = 0.5


def next_random(rank: FloatArray, allowed: BoolArray) -> Proposal | None:
    """Return the allowed mode that comes first in the seed's random order."""
    if not allowed.any():
        return None
    return Proposal(int(np.argmin(np.where(allowed, rank, np.inf))), "next of a random order")


def select_predicted(problem: Problem, history: History, prediction: Prediction | None, limits: Limits) -> Choice:
    """Return the papers' choice at a risk of one half or more, else one that counts with the prediction's error.

    Without a prediction (too few samples) the best measured mode is taken.
    """
    if prediction is None:
        return select_measured(problem, history, limits)
    if problem.risk >= BY_THE_MEAN:
        return _by_the_mean(problem, prediction, limits, history.peak_factors)
    posterior = _with_measurements(problem, history, prediction)
    return choose(posterior, problem.objective, limits, problem.work, problem.risk, history.peak_factors)


def _by_the_mean(problem: Problem, prediction: Prediction, limits: Limits, peaks: FloatArray) -> Choice:
    """Choose on the predicted front as if the predictions were exact."""
    certain = np.zeros(len(prediction))
    exact = replace(prediction, time_std_s=certain, power_std_w=certain)
    on_front = np.zeros(len(prediction), dtype=np.bool_)
    on_front[pareto_front(prediction.time_s, prediction.power_w)] = True
    choice = choose(exact, problem.objective, limits, problem.work, 0.0, peaks, eligible=on_front)
    if choice.row is None:
        return choice
    risk = break_probability(prediction, limits, problem.work, peaks)
    return replace(choice, break_probability=float(risk[choice.row]))


def _with_measurements(problem: Problem, history: History, prediction: Prediction) -> Prediction:
    """Return the prediction with measured values where there are any."""
    measured, posterior = measured_rows(problem, history), measured_prediction(problem, history)
    return Prediction(
        np.where(measured, posterior.time_s, prediction.time_s),
        np.where(measured, posterior.time_std_s, prediction.time_std_s),
        np.where(measured, posterior.power_w, prediction.power_w),
        np.where(measured, posterior.power_std_w, prediction.power_std_w),
    )
