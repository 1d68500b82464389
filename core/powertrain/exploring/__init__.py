"""Exploring under a mean limit: an energy ledger over the guard window decides what may be tried and for how long.

The limit is a mean over a sliding window. A mode above it does no harm if it lasts for a fraction of the window and the
seconds around it are low. So readings decide how long a visit lasts; a prediction only bounds what a mode may draw
before the first readings arrive. Everything here is pure: it is told readings and answers questions.
"""

from powertrain.exploring.lag import LagBelief, SettledPower
from powertrain.exploring.ledger import Ledger
from powertrain.exploring.ledgers import Ledgers
from powertrain.exploring.noise import ReadingNoise
from powertrain.exploring.rules import NORMAL, MeanRules
from powertrain.exploring.swing import LoadFinding, LoadWatch
from powertrain.exploring.visits import Verdict, Visit

__all__ = [
    "NORMAL",
    "LagBelief",
    "Ledger",
    "Ledgers",
    "LoadFinding",
    "LoadWatch",
    "MeanRules",
    "ReadingNoise",
    "SettledPower",
    "Verdict",
    "Visit",
]
