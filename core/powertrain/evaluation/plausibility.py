"""Which rows of a measured table can be believed: some tables hold rows whose clocks were not applied."""

from __future__ import annotations

import hashlib

import numpy as np

from powertrain.physics.predictor import PhysicsPredictor
from powertrain.samples import SampleTable
from powertrain.space import BoolArray
from powertrain.strategies.base import HasPhysics

# A row that is faster by this share than a mode with no lower clock: its clocks were not those in the table.
IMPLAUSIBLE = 0.15
# A row is too good if it is faster, or takes less power, by this share than the physics of the whole table says.
TOO_GOOD = 0.15
TABLE_NOISE = 0.01
MOST_ANSWERS = 16
_answers: dict[tuple[bytes, int], tuple[HasPhysics | None, BoolArray]] = {}


def plausible_rows(truth: SampleTable) -> BoolArray:
    """Return the rows of one batch size that are not much faster than a mode whose every knob is at least as high."""
    plausible = np.ones(len(truth), dtype=np.bool_)
    for row, mode in enumerate(truth.matrix):
        above = np.all(truth.matrix >= mode, axis=1)
        plausible[row] = truth.step_s[above].max() <= truth.step_s[row] * (1.0 + IMPLAUSIBLE)
    return plausible


def plausible_against_physics(truth: SampleTable, reference: HasPhysics | None) -> BoolArray:
    """Return the rows that are not too good against physics fitted to the whole table.

    Only the smooth law counts here, not what the model learns about single modes: a block of rows at a wrong clock
    would vouch for itself. A fit to a whole table takes longer than a replay, so answers are remembered.
    """
    table = b"".join(array.tobytes() for array in (truth.matrix, truth.step_s, truth.power_w))
    key = (hashlib.blake2b(table, digest_size=16).digest(), id(reference))
    if key not in _answers:
        if len(_answers) >= MOST_ANSWERS:
            _answers.pop(next(iter(_answers)))
        # The reference is kept beside its answer, so that its id stays its own.
        _answers[key] = (reference, _against_physics(truth, reference))
    return _answers[key][1]


def _against_physics(truth: SampleTable, reference: HasPhysics | None) -> BoolArray:
    physics = None if reference is None else reference.physics
    predictor = PhysicsPredictor(physics, space=truth.matrix)
    noise = np.full(len(truth), TABLE_NOISE)
    predictor.fit(truth.matrix, truth.step_s, truth.power_w, noise, noise)
    law = predictor.law(truth.matrix)
    slack = np.log1p(-TOO_GOOD)
    plausible: BoolArray = (np.log(truth.step_s) - law.log_time > slack) & (
        np.log(truth.power_w) - law.log_power > slack
    )
    return plausible
