"""`ucb`: a bandit. Modes are arms, a step's speed is the reward, and the arm with the best upper bound is pulled.

The first paper names reinforcement learning as an outlook. With thousands of arms and some dozens of pulls, arms must
learn from their neighbours: a Gaussian process over cores and clocks (GP-UCB, Srinivas et al. 2010), without physics
and without a reference.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from powertrain.choosing import Choice
from powertrain.objectives import Limits, Objective
from powertrain.prediction import Prediction
from powertrain.profiling.acquisition import confidence_width, front_budgets, log_goal
from powertrain.profiling.history import History
from powertrain.profiling.problem import Aim, Problem
from powertrain.space import BoolArray, FloatArray
from powertrain.strategies.base import Proposal, random_order, select_measured
from powertrain.strategies.by_prediction import next_random

RANDOM_PULLS = 5  # before a mean and a spread mean anything
LENGTH = 0.7  # how far arms learn from each other, as a share of a knob's range (log scale)
NUGGET = 1e-4  # share of the variance that only this very arm has


class Ucb:
    """Pulls the arm that may be fastest among those that may keep the limit; takes the best measured one."""

    name: ClassVar[str] = "ucb"
    default_max_modes: ClassVar[int | None] = 50
    summary: ClassVar[str] = "a bandit: upper confidence bounds of a Gaussian process over the modes, no reference"

    def __init__(self, problem: Problem, reference: object | None = None) -> None:
        self._problem = problem
        self._rank = random_order(problem)
        logs = np.log(problem.modes)
        span = logs.max(axis=0) - logs.min(axis=0)
        self._centre, self._unit = logs.min(axis=0), np.where(span > 0, span, 1.0) * LENGTH
        self._fitted: tuple[History, Prediction] | None = None

    def propose(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the arm with the best optimistic reward; at first some of the seed's random order."""
        if len(history.modes) < RANDOM_PULLS or not allowed.any():
            return next_random(self._rank, allowed)
        prediction = self._prediction(history)
        width = confidence_width(len(self._problem.space), len(history.modes))
        if self._problem.aim is Aim.ACCURACY:
            spread = np.hypot(prediction.time_std_s / prediction.time_s, prediction.power_std_w / prediction.power_w)
            return Proposal(int(np.argmax(np.where(allowed, spread, -np.inf))), "the least known arm")
        objective, budget_w = self._round(history, prediction)
        goal, std = log_goal(prediction, objective)
        optimistic = goal - width * std
        may_keep = allowed & (prediction.power_w - width * prediction.power_std_w <= budget_w)
        row = int(np.argmin(np.where(may_keep if may_keep.any() else allowed, optimistic, np.inf)))
        return Proposal(row, f"best upper confidence bound at {budget_w:.4g} W")

    def predict(self, history: History) -> Prediction | None:
        """Return the process's mean and spread of every arm; None before the first pull."""
        return self._prediction(history) if len(history.modes) else None

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the best measured mode."""
        return select_measured(self._problem, history, limits)

    def _round(self, history: History, prediction: Prediction) -> tuple[Objective, float]:
        """Return what this pull plays for: the problem's limit, or one of the front's budgets after the other."""
        problem = self._problem
        if problem.aim is Aim.BUDGET:
            return problem.objective, np.inf if problem.budget_w is None else problem.budget_w
        budgets = front_budgets(prediction)
        return Objective.MIN_TIME, float(budgets[len(history.modes) % len(budgets)])

    def _prediction(self, history: History) -> Prediction:
        if self._fitted is None or self._fitted[0] is not history:
            here, there = self._scaled(history.modes), self._scaled(self._problem.modes)
            time_s, time_std = _process(here, there, history.step_s, history.noise)
            power_w, power_std = _process(here, there, history.power_w, history.power_noise)
            self._fitted = (history, Prediction(time_s, time_std, power_w, power_std))
        return self._fitted[1]

    def _scaled(self, modes: FloatArray) -> FloatArray:
        scaled: FloatArray = (np.log(modes) - self._centre) / self._unit
        return scaled


def _process(
    here: FloatArray, there: FloatArray, values: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of a Gaussian process in log values; mean and size are the samples' own."""
    logs = np.log(values)
    level, amplitude = float(logs.mean()), max(float(logs.std()), 0.05)
    own = amplitude**2 * (_similar(here, here) + NUGGET * np.eye(len(here))) + np.diag(noise**2)
    factor = np.linalg.cholesky(own)
    across = np.linalg.solve(factor, amplitude**2 * _similar(here, there))
    mean = np.exp(level + across.T @ np.linalg.solve(factor, logs - level))
    variance = np.maximum(amplitude**2 * (1.0 + NUGGET) - (across**2).sum(axis=0), 0.0)
    std: FloatArray = mean * np.sqrt(variance)
    return mean, std


def _similar(left: FloatArray, right: FloatArray) -> FloatArray:
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2.0 * left @ right.T
    similar: FloatArray = np.exp(-0.5 * np.maximum(squares, 0.0))
    return similar
