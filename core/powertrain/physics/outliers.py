"""Which samples to leave out of a fit: those measured at other clocks than they say.

One at a time, the sample that the others contradict most, is enough for a few strangers. Several that agree with each
other pull the fit to their side, where the right ones look strange. So once some look strange, a second fit starts from
the other end: with heavy tails, which a minority hardly pulls, and without all that lie far from it. Of both, that
which makes all samples more probable is taken.
"""

from __future__ import annotations

import numpy as np

from powertrain.physics.fitting import Fit, Samples, fit_samples
from powertrain.physics.prior import Widths
from powertrain.physics.reference import PhysicsReference
from powertrain.space import BoolArray, FloatArray

OUTLIER_Z = 4.5
OUTLIER_SHARE = 0.2  # of the samples at most: beyond that nobody can tell which side is right
GROUP = 2  # strangers that may be right ones beside a group of wrong ones; a single one is what it seems
TAIL_FREEDOM = 3.0  # degrees of freedom of Student's t: heavy tails that still have a variance
TAIL_ROUNDS = 4
# A stranger may lie anywhere within one unit of log time and of log power (density 1), and is one sample in ten: what
# leaving a sample out adds to −2 log of the probability of all.
COST_OF_STRANGER = -2.0 * float(np.log(0.1 / 0.9))


def fit_without_outliers(reference: PhysicsReference, widths: Widths, samples: Samples) -> tuple[Fit, BoolArray]:
    """Return the fit to the samples that belong together, and which those are."""
    everyone = np.ones(samples.logs.shape[1], dtype=np.bool_)
    fit, keep = _one_by_one(reference, widths, samples, everyone, None)
    if (~keep).sum() < GROUP:
        return fit, keep
    theta, far = _heavy_tailed(reference, widths, samples, fit.theta)
    strangers = np.argsort(-far)[: int(OUTLIER_SHARE * everyone.size)]
    without = everyone.copy()
    without[strangers[far[strangers] > OUTLIER_Z]] = False
    if np.array_equal(without, keep):
        return fit, keep
    other = _taken_back(reference, widths, samples, without, theta)
    return min((fit, keep), other, key=_improbability)


def _one_by_one(
    reference: PhysicsReference, widths: Widths, samples: Samples, keep: BoolArray, start: FloatArray | None
) -> tuple[Fit, BoolArray]:
    """Leave out the sample that lies farthest from what the others predict, until none lies far."""
    keep = keep.copy()
    fit = fit_samples(reference, widths, samples.subset(keep), start=start)
    for _ in range(int(OUTLIER_SHARE * keep.size) - int((~keep).sum())):
        z = np.abs(fit.leave_one_out_z()).max(axis=0)
        worst = int(np.argmax(z))
        if z[worst] < OUTLIER_Z:
            break
        keep[np.flatnonzero(keep)[worst]] = False
        fit = fit_samples(reference, widths, samples.subset(keep), start=fit.theta)
    return fit, keep


def _taken_back(
    reference: PhysicsReference, widths: Widths, samples: Samples, keep: BoolArray, start: FloatArray
) -> tuple[Fit, BoolArray]:
    """Take in again whom those that were kept do not contradict: far from physics alone is not far from neighbours."""
    fit = fit_samples(reference, widths, samples.subset(keep), start=start)
    near = np.abs(fit.z_of(samples)).max(axis=0) < OUTLIER_Z
    return _one_by_one(reference, widths, samples, keep | near, fit.theta)


def _heavy_tailed(
    reference: PhysicsReference, widths: Widths, samples: Samples, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fit with Student's t for each sample's time and power together; return parameters, and how far each sample lies.

    Each round widens a sample's noise by how far it lay in the last (iterated weights), all else is the usual fit.
    """
    widened, theta = samples, start
    for _ in range(TAIL_ROUNDS):
        fit = fit_samples(reference, widths, widened, start=theta)
        theta, expected = fit.theta, fit.residual_variance + samples.noise**2
        squared = (fit.residual**2 / expected).sum(axis=0)
        weaker = np.maximum((TAIL_FREEDOM + squared) / (TAIL_FREEDOM + len(expected)), 1.0)
        widened = Samples(samples.features, samples.logs, np.sqrt(samples.noise**2 + expected * (weaker - 1.0)))
    return theta, np.sqrt(squared)


def _improbability(candidate: tuple[Fit, BoolArray]) -> float:
    """Return −2 log of the probability of all samples, up to a constant."""
    fit, keep = candidate
    return fit.improbability() + COST_OF_STRANGER * int((~keep).sum())
