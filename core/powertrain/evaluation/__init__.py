"""Evaluation: how well strategies predict and choose on measured tables, with the papers' scores."""

from powertrain.evaluation.evaluate import EvaluationError, Settings, evaluate
from powertrain.evaluation.fronts import fronts
from powertrain.evaluation.knobs import knob_worth, preset_watts
from powertrain.evaluation.matrix import evaluate_matrix, workloads_of
from powertrain.evaluation.scores import Score

__all__ = [
    "EvaluationError",
    "Score",
    "Settings",
    "evaluate",
    "evaluate_matrix",
    "fronts",
    "knob_worth",
    "preset_watts",
    "workloads_of",
]
