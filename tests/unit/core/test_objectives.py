"""Objectives, limits and the work they are for."""

import math

import pytest

from powertrain.objectives import LimitError, Limits, Objective, PowerStatistic, Work

EPOCH = Work(batch_size=16, samples_per_epoch=1000)
TRAINING = Work(batch_size=16, samples_per_epoch=1000, epochs=10)


def test_the_last_partial_batch_is_a_step() -> None:
    assert EPOCH.steps_per_epoch == 63
    assert TRAINING.steps == 630
    assert EPOCH.steps is None
    assert Work().steps_per_epoch is None


@pytest.mark.parametrize("name", ["batch_size", "samples_per_epoch", "epochs"])
def test_work_must_be_at_least_one(name: str) -> None:
    with pytest.raises(LimitError, match=f"{name} must be at least 1, not 0"):
        Work(**{name: 0})


@pytest.mark.parametrize("name", ["power_w", "hard_limit_w", "epoch_s", "training_s", "energy_per_epoch_j", "energy_j"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_must_be_a_number_above_zero(name: str, bad: float) -> None:
    with pytest.raises(LimitError, match=f"{name} must be a number above zero, not {bad}"):
        Limits(**{name: bad})


@pytest.mark.parametrize(
    ("objective", "limits", "work"),
    [
        (Objective.MIN_TIME, Limits(power_w=30), Work()),
        (Objective.MIN_TIME, Limits(hard_limit_w=30), Work()),
        (Objective.MIN_TIME, Limits(energy_per_epoch_j=30), EPOCH),
        (Objective.MIN_POWER, Limits(epoch_s=30), EPOCH),
        (Objective.MIN_POWER, Limits(training_s=30), TRAINING),
        (Objective.MIN_POWER, Limits(energy_j=30), TRAINING),
        (Objective.MIN_ENERGY, Limits(), Work()),
    ],
)
def test_an_objective_with_the_limit_it_needs_is_decidable(objective: Objective, limits: Limits, work: Work) -> None:
    limits.check(objective, work)
    assert limits.step_s(work) > 0


@pytest.mark.parametrize(
    ("objective", "limits", "work", "message"),
    [
        (Objective.MIN_TIME, Limits(), Work(), "MinTime needs a power or an energy limit"),
        (Objective.MIN_TIME, Limits(epoch_s=9), EPOCH, "MinTime needs a power or an energy limit"),
        (Objective.MIN_POWER, Limits(power_w=30), Work(), "MinPower needs a time or an energy limit"),
        (Objective.MIN_POWER, Limits(epoch_s=9), Work(), "per epoch needs the number of samples per epoch"),
        (Objective.MIN_ENERGY, Limits(energy_per_epoch_j=9), Work(), "per epoch needs the number of samples per epoch"),
        (Objective.MIN_POWER, Limits(training_s=9), EPOCH, "needs samples per epoch and the number of epochs"),
        (Objective.MIN_ENERGY, Limits(energy_j=9), Work(epochs=3), "needs samples per epoch and the number of epochs"),
    ],
)
def test_what_can_not_be_decided_is_refused_with_what_is_missing(
    objective: Objective, limits: Limits, work: Work, message: str
) -> None:
    with pytest.raises(LimitError, match=message):
        limits.check(objective, work)


def test_time_and_energy_limits_become_the_tightest_per_step() -> None:
    limits = Limits(epoch_s=63, training_s=315, energy_per_epoch_j=630, energy_j=12_600)
    assert limits.step_s(TRAINING) == pytest.approx(0.5)
    assert limits.step_j(TRAINING) == pytest.approx(10)
    assert Limits().step_s(TRAINING) == Limits().step_j(Work()) == math.inf


def test_the_mean_may_reach_the_power_limit_and_a_peak_must_fit_below_it() -> None:
    assert Limits(power_w=30).mean_power_w(1.2) == 30
    assert Limits(power_w=30, power_statistic=PowerStatistic.PEAK).mean_power_w(1.2) == pytest.approx(25)
    assert Limits(power_w=30, hard_limit_w=33).mean_power_w(1.2) == pytest.approx(27.5)
    assert Limits().mean_power_w(1.2) == math.inf


def test_only_a_peak_or_hard_limit_needs_peaks() -> None:
    assert not Limits(power_w=30).needs_peak
    assert not Limits(power_statistic=PowerStatistic.PEAK).needs_peak
    assert Limits(power_w=30, power_statistic=PowerStatistic.PEAK).needs_peak
    assert Limits(hard_limit_w=30).needs_peak
