"""Network and NetworkPair: trained weights as plain arrays, and the forward pass in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from powertrain.prediction import Prediction
from powertrain.space import FloatArray

LAYER_SIZES = (4, 256, 128, 64, 1)
LAYERS = len(LAYER_SIZES) - 1
# The last layer is linear: far from the samples it can fall below zero. No mode is this much below all that were seen.
LEAST_SHARE = 0.01

WeightArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Network:
    """One trained network: standardised inputs, `weights[k]` of the shape (outputs, inputs), output times `factor`.

    `target_mean` is the mean of what it learned (after division by `factor`), `floor` the least value it may predict,
    `residual` the relative standard deviation of its error on the validation rows.
    """

    input_mean: FloatArray
    input_scale: FloatArray
    weights: tuple[WeightArray, ...]
    biases: tuple[WeightArray, ...]
    factor: float
    target_mean: float
    floor: float
    residual: float
    validation_mape_pct: float

    def inputs(self, modes: FloatArray) -> WeightArray:
        """Return the standardised inputs of modes."""
        return ((modes - self.input_mean) / self.input_scale).astype(np.float32)

    def predict(self, modes: FloatArray) -> FloatArray:
        """Return the predicted value of each mode."""
        active = self.inputs(modes)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            active = active @ weight.T + bias
            if layer < LAYERS - 1:
                active = np.maximum(active, 0.0)
        predicted: FloatArray = np.maximum(active[:, 0].astype(np.float64) * self.factor, self.floor)
        return predicted

    def to_arrays(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """Return named arrays for a file."""
        arrays: dict[str, NDArray[np.generic]] = {
            f"{prefix}.input_mean": self.input_mean,
            f"{prefix}.input_scale": self.input_scale,
            f"{prefix}.figures": np.array(
                [self.factor, self.target_mean, self.floor, self.residual, self.validation_mape_pct]
            ),
        }
        for k in range(LAYERS):
            arrays[f"{prefix}.weight{k}"] = self.weights[k]
            arrays[f"{prefix}.bias{k}"] = self.biases[k]
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]], prefix: str) -> Network:
        """Rebuild a network from `to_arrays`; arrays that are missing, misshapen or not finite are a ValueError."""
        figures = _array(arrays, f"{prefix}.figures", (5,)).astype(np.float64)
        weights, biases = [], []
        for k in range(LAYERS):
            inputs, outputs = LAYER_SIZES[k], LAYER_SIZES[k + 1]
            weights.append(_array(arrays, f"{prefix}.weight{k}", (outputs, inputs)).astype(np.float32))
            biases.append(_array(arrays, f"{prefix}.bias{k}", (outputs,)).astype(np.float32))
        return cls(
            _array(arrays, f"{prefix}.input_mean", (4,)).astype(np.float64),
            _array(arrays, f"{prefix}.input_scale", (4,)).astype(np.float64),
            tuple(weights),
            tuple(biases),
            *(float(figure) for figure in figures),
        )


@dataclass(frozen=True, eq=False)
class NetworkPair:
    """The network of step time (it works in milliseconds) and the network of power (in watts)."""

    time: Network
    power: Network

    def predict(self, modes: FloatArray) -> Prediction:
        """Return step time and power; the standard deviation is the relative error on the validation rows."""
        time_s, power_w = self.time.predict(modes) / 1e3, self.power.predict(modes)
        return Prediction(time_s, time_s * self.time.residual, power_w, power_w * self.power.residual)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return named arrays for a file."""
        return self.time.to_arrays("time") | self.power.to_arrays("power")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> NetworkPair:
        """Rebuild a pair from `to_arrays`."""
        return cls(Network.from_arrays(arrays, "time"), Network.from_arrays(arrays, "power"))


def _array(arrays: Mapping[str, NDArray[np.generic]], name: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
    if name not in arrays:
        raise ValueError(f"a network needs the array {name!r}; the file holds {sorted(arrays)}")
    array = arrays[name]
    if array.shape != shape:
        raise ValueError(f"array {name!r} must have the shape {shape}, not {array.shape}")
    if not np.all(np.isfinite(array.astype(np.float64))):
        raise ValueError(f"array {name!r} holds values that are not finite")
    return array
