"""What a reference promises to a load, as far as ratios of its predictions go."""

from __future__ import annotations

import numpy as np
import pytest

from powertrain import PowerMode, devices
from powertrain.expected_gain import SAME_SPEED, expected_gain
from powertrain.reference import shipped
from powertrain.space import ModeSpace


def test_the_gains_are_those_of_the_reference_s_own_front() -> None:
    space, physics = devices.get("orin-agx").space(), shipped().physics
    # A fast CPU that waits for a slow GPU.
    present = PowerMode(12, 2201600, 522750000, 3199000000)
    gain = expected_gain(physics, space, present)
    modes = physics.evaluate(space.matrix)
    time_s, power_w = np.exp(modes.log_time), np.exp(modes.log_power)
    row = space.index(present)
    assert gain.speedup > 0.1
    faster = space.index(gain.faster_mode)
    assert power_w[faster] <= power_w[row] * (1 + 1e-6)
    assert time_s[row] / time_s[faster] - 1 == pytest.approx(gain.speedup)
    assert time_s[faster] == time_s[power_w <= power_w[row] * (1 + 1e-9)].min()
    thrifty = space.index(gain.saving_mode)
    assert time_s[thrifty] <= time_s[row] * (1 + SAME_SPEED + 1e-9)
    assert gain.power_saving == pytest.approx(1 - power_w[thrifty] / power_w[row])


def test_a_mode_on_the_front_has_nothing_to_gain_in_time() -> None:
    space, physics = devices.get("orin-agx").space(), shipped().physics
    lowest = space[int(np.argmin(physics.evaluate(space.matrix).log_power))]
    assert expected_gain(physics, space, lowest).speedup == 0
    alone = ModeSpace.covering([lowest])
    gain = expected_gain(physics, alone, lowest)
    assert (gain.speedup, gain.power_saving) == (0, 0)
