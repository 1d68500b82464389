"""Evaluation: how well strategies predict and choose on measured tables, with the papers' scores."""

from powertrain.evaluation.evaluate import EvaluationError, Settings, evaluate
from powertrain.evaluation.scores import Score

__all__ = ["EvaluationError", "Score", "Settings", "evaluate"]
