"""What another mode would bring to a load that nobody measures step by step: predicted by a reference alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from powertrain.modes import PowerMode
from powertrain.physics.reference import PhysicsReference
from powertrain.space import ModeSpace

# A mode counts as equally fast below this share of additional time.
SAME_SPEED = 0.01


@dataclass(frozen=True)
class ExpectedGain:
    """How much faster a load could be at its present power, and how much power it could save at its present speed.

    Both are shares (0.1 is 10 %), true for the reference's own workload: another one has more or less to gain.
    """

    speedup: float
    faster_mode: PowerMode
    power_saving: float
    saving_mode: PowerMode


def expected_gain(reference: PhysicsReference, space: ModeSpace, present: PowerMode) -> ExpectedGain:
    """Return what the reference predicts for the modes of a space, compared with the present mode of the board.

    Only ratios of predictions count, so a load that takes twice the reference's power gets the same answer.
    """
    modes = reference.evaluate(space.matrix)
    now = reference.evaluate(ModeSpace.covering([present]).matrix)
    time_ratio = np.exp(modes.log_time - now.log_time[0])
    power_ratio = np.exp(modes.log_power - now.log_power[0])
    within_power = np.where(power_ratio <= 1.0 + 1e-9, time_ratio, np.inf)
    as_fast = np.where(time_ratio <= 1.0 + SAME_SPEED, power_ratio, np.inf)
    fastest, thriftiest = int(np.argmin(within_power)), int(np.argmin(as_fast))
    return ExpectedGain(
        speedup=max(0.0, float(1.0 / within_power[fastest] - 1.0)),
        faster_mode=space[fastest],
        power_saving=max(0.0, float(1.0 - as_fast[thriftiest])),
        saving_mode=space[thriftiest],
    )
