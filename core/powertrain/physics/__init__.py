"""Physics-shaped time and power of a training step: reference, predictor with uncertainty, designs."""

from powertrain.physics.design import accuracy_next, initial_design, low_power_anchor
from powertrain.physics.predictor import PhysicsPredictor, Posterior
from powertrain.physics.reference import PhysicsReference, fit_reference

__all__ = [
    "PhysicsPredictor",
    "PhysicsReference",
    "Posterior",
    "accuracy_next",
    "fit_reference",
    "initial_design",
    "low_power_anchor",
]
