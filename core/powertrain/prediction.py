"""Prediction: time and power of many modes, each with a standard deviation."""

from __future__ import annotations

from dataclasses import dataclass

from powertrain.space import FloatArray


@dataclass(frozen=True, eq=False)
class Prediction:
    """Means and standard deviations, one entry per mode; measured values have those of their measurement."""

    time_s: FloatArray
    time_std_s: FloatArray
    power_w: FloatArray
    power_std_w: FloatArray

    def __len__(self) -> int:
        return len(self.time_s)
