"""What a table itself says, without any strategy: what each knob is worth, and what presets truly take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from powertrain.devices import Device
from powertrain.samples import SampleTable
from powertrain.space import BoolArray, ModeSpace

# which of cores, CPU, GPU and memory clock stay at their maximum
KEPT_AT_MAXIMUM = {
    "all cores online": (0,),
    "memory at maximum": (3,),
    "GPU clock alone": (0, 1, 3),
}


def knob_worth(table: SampleTable, budgets_w: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return how much slower the best mode gets, in percent, when knobs stay at their maximum: over binding budgets.

    A budget that the remaining modes can't keep is left out of the figures and counted in `unreachable_pct`.
    """
    fastest_w = float(table.power_w[int(np.argmin(table.step_s))])
    binding = [budget for budget in budgets_w if float(table.power_w.min()) <= budget < fastest_w]
    worth = {}
    for name, columns in KEPT_AT_MAXIMUM.items():
        at_top = np.all(table.matrix[:, columns] == table.matrix[:, columns].max(axis=0), axis=1)
        extra = [_extra_pct(table, at_top, budget) for budget in binding]
        finite = [value for value in extra if np.isfinite(value)]
        if finite:
            worth[name] = {
                "median": float(np.median(finite)),
                "p90": float(np.percentile(finite, 90)),
                "worst": float(np.max(finite)),
                "unreachable_pct": 100.0 * (1.0 - len(finite) / len(binding)),
            }
    return worth


def preset_watts(table: SampleTable, device: Device) -> list[dict[str, Any]]:
    """Return each labelled preset of a board with the power that the table has for it, or for its nearest mode."""
    space = ModeSpace.covering(table.matrix)
    row_of = {table.mode(row): row for row in range(len(table))}
    rows = []
    for preset in device.presets:
        if preset.watts is None:
            continue
        mode = device.preset_mode(preset)
        nearest = space.nearest(mode)
        row = row_of[nearest]
        power_w, step_s = float(table.power_w[row]), float(table.step_s[row])
        within = table.power_w <= preset.watts
        best_s = float(table.step_s[within].min()) if within.any() else None
        rows.append(
            {
                "preset": preset.name,
                "label_w": preset.watts,
                "mode": str(mode),
                "nearest": str(nearest),
                "exact": nearest == mode,
                "power_w": power_w,
                "slower_than_best_pct": None if best_s is None else (step_s / best_s - 1.0) * 100,
            }
        )
    return sorted(rows, key=lambda entry: float(entry["label_w"]))


def _extra_pct(table: SampleTable, at_top: BoolArray, budget_w: float) -> float:
    within = table.power_w <= budget_w
    restricted = within & at_top
    if not restricted.any():
        return float("inf")
    return float((table.step_s[restricted].min() / table.step_s[within].min() - 1.0) * 100)
