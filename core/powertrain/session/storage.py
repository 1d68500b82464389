"""Storage: a session's state as JSON-ready values and back."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from powertrain.exploring import MeanRules
from powertrain.modes import PowerMode
from powertrain.objectives import Limits, Objective, PowerStatistic, Work
from powertrain.profiling.history import ModeReport, PowerEstimate
from powertrain.profiling.problem import Aim, Cost, Problem
from powertrain.samples import Sample
from powertrain.space import ModeSpace

VERSION = 1


class SessionStateError(ValueError):
    """A stored session that can't be read; the message says why."""


def session_to_dict(problem: Problem, strategy: str, filtered: bool, reports: Sequence[ModeReport]) -> dict[str, Any]:
    """Return problem, strategy and reports as JSON-ready values."""
    plain = {
        name: getattr(problem, name)
        for name in (
            "risk",
            "explore_limit_w",
            "explore_risk",
            "max_modes",
            "min_gain",
            "noise",
            "device",
            "descending_only",
            "seed",
            "prior_width",
        )
    }
    return {
        "version": VERSION,
        "strategy": strategy,
        "filtered": filtered,
        "problem": {
            **plain,
            "aim": problem.aim.value,
            "objective": problem.objective.value,
            "limits": {**asdict(problem.limits), "power_statistic": problem.limits.power_statistic.value},
            "work": asdict(problem.work),
            "cost": asdict(problem.cost),
            "space": space_to_dict(problem.space),
            "rules": None if problem.rules is None else asdict(problem.rules),
            "elsewhere": [{"mode": str(sample.mode), **_sample_to_dict(sample)} for sample in problem.elsewhere],
        },
        "reports": [report_to_dict(report) for report in reports],
    }


def session_from_dict(state: dict[str, Any]) -> tuple[Problem, str, bool, tuple[ModeReport, ...]]:
    """Return problem, strategy, filter and reports of a stored session."""
    if state.get("version") != VERSION:
        raise SessionStateError(
            f"stored session has version {state.get('version')!r}; this release reads version {VERSION}"
        )
    try:
        fields = dict(state["problem"])
        limits = dict(fields.pop("limits"))
        problem = Problem(
            space=space_from_dict(fields.pop("space")),
            aim=Aim(fields.pop("aim")),
            objective=Objective(fields.pop("objective")),
            limits=Limits(**{**limits, "power_statistic": PowerStatistic(limits["power_statistic"])}),
            work=Work(**fields.pop("work")),
            cost=Cost(**fields.pop("cost")),
            rules=_rules_from_dict(fields.pop("rules", None)),
            elsewhere=tuple(_sample_from_dict(sample) for sample in fields.pop("elsewhere", ())),
            **fields,
        )
        return (
            problem,
            state["strategy"],
            state["filtered"],
            tuple(report_from_dict(report) for report in state["reports"]),
        )
    except (KeyError, TypeError) as error:
        raise SessionStateError(f"stored session is damaged: {error!r}") from error


def _rules_from_dict(data: dict[str, Any] | None) -> MeanRules | None:
    if data is None:
        return None
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
    return MeanRules(**values)


def space_to_dict(space: ModeSpace) -> dict[str, Any]:
    """Return a space as its axes and, where modes are missing, a packed mask."""
    mask = None if space.allowed is None else base64.b64encode(np.packbits(space.allowed).tobytes()).decode()
    axes = dict(zip(("cores", "cpu_khz", "gpu_hz", "emc_hz"), (axis.tolist() for axis in space.axes), strict=True))
    return {**axes, "allowed": mask}


def space_from_dict(data: dict[str, Any]) -> ModeSpace:
    """Return the space that `space_to_dict` wrote."""
    grid = ModeSpace.grid(data["cores"], data["cpu_khz"], data["gpu_hz"], data["emc_hz"])
    if data["allowed"] is None:
        return grid
    bits = np.unpackbits(
        np.frombuffer(base64.b64decode(data["allowed"]), dtype=np.uint8), count=int(np.prod(grid.shape))
    )
    return ModeSpace(*grid.axes, allowed=bits.astype(np.bool_).reshape(grid.shape))


def _sample_to_dict(sample: Sample) -> dict[str, Any]:
    return {name: getattr(sample, name) for name in sample.__slots__ if name != "mode"}


def _sample_from_dict(data: dict[str, Any]) -> Sample:
    return Sample(**{**data, "mode": PowerMode.parse(data["mode"])})


def report_to_dict(report: ModeReport) -> dict[str, Any]:
    """Return a report as JSON-ready values."""
    return {
        "mode": str(report.mode),
        "asked": None if report.asked_mode is None else str(report.asked_mode),
        "sample": None if report.sample is None else _sample_to_dict(report.sample),
        "noise": report.noise,
        "failure": report.failure,
        "power_noise": report.power_noise,
        "power_only": None if report.power_only is None else asdict(report.power_only),
        "left_early": report.left_early,
    }


def report_from_dict(data: dict[str, Any]) -> ModeReport:
    """Return the report that `told_to_dict` wrote."""
    mode = PowerMode.parse(data["mode"])
    sample = None if data["sample"] is None else Sample(mode=mode, **data["sample"])
    asked_mode = None if data["asked"] is None else PowerMode.parse(data["asked"])
    estimate = data.get("power_only")
    return ModeReport(
        mode,
        asked_mode,
        sample,
        data["noise"],
        data["failure"],
        data.get("power_noise"),
        None if estimate is None else PowerEstimate(**estimate),
        data.get("left_early", False),
    )
