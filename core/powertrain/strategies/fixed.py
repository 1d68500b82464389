"""Strategies that measure nothing: a mode that NVIDIA's labels name is taken as it is."""

from __future__ import annotations

from typing import ClassVar

from powertrain import devices
from powertrain.choosing import Choice
from powertrain.devices import Preset
from powertrain.modes import PowerMode
from powertrain.objectives import Limits
from powertrain.prediction import Prediction
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.space import BoolArray
from powertrain.strategies.base import Proposal, StrategyUnavailableError


def taken_as_is(problem: Problem, mode: PowerMode, runner_up: PowerMode | None, reason: str) -> Choice:
    """Return a choice of the legal mode nearest to the given one, without any knowledge of its power."""
    row = problem.space.index(problem.space.nearest(mode))
    other = None if runner_up is None else problem.space.index(problem.space.nearest(runner_up))
    return Choice(row, other, float("nan"), 1, {}, None, reason)


class MaxN:
    """All cores and clocks at their maximum, whatever the budget (the papers' MAXN baseline)."""

    name: ClassVar[str] = "maxn"
    default_max_modes: ClassVar[int | None] = 0
    summary: ClassVar[str] = "everything at its maximum, whatever the budget"

    def __init__(self, problem: Problem, reference: object | None = None) -> None:
        self._problem = problem

    def propose(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return nothing: no mode has to be measured."""
        return None

    def predict(self, history: History) -> Prediction | None:
        """Return nothing: this strategy knows no figures."""
        return None

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the highest mode."""
        highest = self._problem.space[len(self._problem.space) - 1]
        return taken_as_is(self._problem, highest, None, "all clocks at their maximum; the budget is not looked at")


class PresetByLabel(MaxN):
    """The preset with the highest label within the budget (the papers' NV baseline); the label is a promise, not a
    measurement.
    """

    name: ClassVar[str] = "preset"
    summary: ClassVar[str] = "the NVIDIA preset with the highest label within the budget"

    def __init__(self, problem: Problem, reference: object | None = None) -> None:
        super().__init__(problem)
        if problem.device is None:
            raise StrategyUnavailableError(
                f"strategy 'preset' needs the board's name (one of {', '.join(devices.names())}): presets are per board"
            )
        self._device = devices.get(problem.device)

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the preset with the highest label within the budget, the lowest preset where none is."""
        bound = limits.power_w if limits.power_w is not None else limits.hard_limit_w
        labelled = sorted((p for p in self._device.presets if p.watts is not None), key=lambda p: p.watts or 0.0)
        if bound is None or not labelled:
            return taken_as_is(
                self._problem,
                self._device.preset_mode(self._device.presets[0]),
                None,
                "no power limit, no label: the first preset",
            )
        within = [p for p in labelled if (p.watts or 0.0) <= bound]
        if not within:
            lowest = labelled[0]
            return taken_as_is(
                self._problem,
                self._mode(lowest),
                None,
                f"no label is within {bound:g} W: the lowest preset {lowest.name}",
            )
        best = within[-1]
        other = self._mode(within[-2]) if len(within) > 1 else None
        return taken_as_is(
            self._problem, self._mode(best), other, f"preset {best.name} has the highest label within {bound:g} W"
        )

    def _mode(self, preset: Preset) -> PowerMode:
        return self._device.preset_mode(preset)
