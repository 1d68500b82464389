"""The end of the demo: what was predicted and observed, against full clocks, NVIDIA's preset and brute force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from powertrain.modes import PowerMode
from powertrain_cli.fitting import FittingTable
from powertrain_cli.jobs.documents import Document
from powertrain_cli.jobs.screens import grid
from powertrain_devcluster.demo import truth
from powertrain_devcluster.demo.scenario import WORKLOAD, Board


@dataclass(frozen=True)
class Outcome:
    """What a board did under one limit, before or after the budget changed."""

    board: Board
    limit_w: float
    reported: Document
    measured: Document


def table(outcomes: Sequence[Outcome]) -> FittingTable:
    """Return one row for each mode and yardstick; `time` is against brute force."""
    rows: list[list[Any]] = []
    for outcome in outcomes:
        rows += _rows(outcome)
    columns = ["board", "limit W", "", "mode", "ms a step", "W", "time"]
    return grid(columns, rows, right=("limit W", "ms a step", "W", "time"))


def _rows(outcome: Outcome) -> list[list[Any]]:
    device, limit_w, reported = outcome.board.device, outcome.limit_w, outcome.reported
    best = truth.brute_force(device, WORKLOAD, limit_w)
    rows: list[list[Any]] = []

    def add(what: str, mode: str, step_s: float, power_w: float, pm: tuple[float, float] | None = None) -> None:
        first = [device, f"{limit_w:g}"] if not rows else ["", ""]
        step, power = f"{step_s * 1e3:.1f}", f"{power_w:.1f}"
        if pm is not None:
            step, power = f"{step} ± {pm[0] * 1e3:.1f}", f"{power} ± {pm[1]:.1f}"
        over = " (above)" if power_w > limit_w else ""
        rows.append([*first, what, mode, step, power + over, f"{step_s / best.step_s:.2f}×"])

    predicted, observed = reported["predicted"], outcome.measured
    if predicted and predicted["step_s"] and predicted["power_w"]:
        pm = (predicted["step_pm_s"] or 0.0, predicted["power_pm_w"] or 0.0)
        add("PowerTrain, predicted", reported["human"], predicted["step_s"], predicted["power_w"], pm)
    add("PowerTrain, observed", reported["human"], observed["step_s"], observed["power_w"])
    true = truth.at(device, WORKLOAD, PowerMode.parse(reported["mode"]))
    add("  the same mode, true", reported["human"], true.step_s, true.power_w)
    add("brute force, true", best.mode.human, best.step_s, best.power_w)
    preset = truth.preset(device, WORKLOAD, limit_w)
    if preset is not None:
        add(f"preset {preset.name}, true", preset.mode.human, preset.step_s, preset.power_w)
    full = truth.full_clocks(device, WORKLOAD)
    add("MAXN, true", full.mode.human, full.step_s, full.power_w)
    return rows


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the result in a line for each board."""
    lines = []
    for outcome in outcomes:
        reported, device = outcome.reported, outcome.board.device
        true = truth.at(device, WORKLOAD, PowerMode.parse(reported["mode"]))
        best = truth.brute_force(device, WORKLOAD, outcome.limit_w)
        preset = truth.preset(device, WORKLOAD, outcome.limit_w)
        slower = 100 * (true.step_s / best.step_s - 1)
        against = f", {preset.step_s / true.step_s:.2f}× as fast as {preset.name}" if preset is not None else ""
        above = "1 mean" if reported["violations"] == 1 else f"{reported['violations'] or 'no'} means"
        lines.append(
            f"{device} at {outcome.limit_w:g} W: {reported['modes_tried']} of {_modes(device):,} modes tried in "
            f"{reported['profiling_s']:.0f} s of board time, {slower:+.1f} % time against "
            f"the best of all{against}, {above} over 3 s above the limit"
        )
    return lines


def _modes(device: str) -> int:
    from powertrain import devices

    device_facts = devices.get(device)
    return int((device_facts.space().matrix[:, 0] == device_facts.cores).sum())
