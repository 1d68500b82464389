"""References: thoroughly measured workloads from which every transfer starts; shipped, as files, or from a table."""

from powertrain.reference.card import ModelErrors, ReferenceCard, ReferenceError
from powertrain.reference.catalogue import SHIPPED, Available, available, closest, shipped
from powertrain.reference.reference import Reference, load, train_reference

__all__ = [
    "SHIPPED",
    "Available",
    "ModelErrors",
    "Reference",
    "ReferenceCard",
    "ReferenceError",
    "available",
    "closest",
    "load",
    "shipped",
    "train_reference",
]
