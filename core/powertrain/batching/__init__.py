"""Batch size and power mode together: how many samples a batch size needs, and which pair reaches the target first."""

from powertrain.batching.choice import BatchChoice, BatchProfile, Candidate, choose_batch
from powertrain.batching.learning_rate import Scaling, scaled_learning_rate
from powertrain.batching.relation import Efficiency, Relation, RelationError
from powertrain.batching.table import BatchTable

__all__ = [
    "BatchChoice",
    "BatchProfile",
    "BatchTable",
    "Candidate",
    "Efficiency",
    "Relation",
    "RelationError",
    "Scaling",
    "choose_batch",
    "scaled_learning_rate",
]
