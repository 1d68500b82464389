"""The simulated Nano and TX2 NX over batch sizes: the second paper's examples, baselines and limits."""

from __future__ import annotations

from functools import cache

import pytest

from powertrain import devices
from powertrain.batching import BatchTable, Relation, choose_batch
from powertrain.batching.plans import worst_case_column
from powertrain.evaluation.batch_plans import PlanScore, Target, score_plans
from powertrain.modes import PowerMode
from powertrain.objectives import Limits, Objective, PowerStatistic
from powertrain.reference import shipped
from powertrain_agent.simulate import batches
from powertrain_agent.simulate.workloads import UnknownWorkloadError

MODELS = ("resnet18-cifar", "mobilenet-v2", "efficientvit-m1", "char-transformer")
LIMITS = {"nano": (4.5, 7.0, None), "tx2-nx": (5.0, 7.5, None)}
BASELINES = ("largest-batch", "proxy-batch")


@cache
def along_gpu(board: str, model: str) -> BatchTable:
    device = devices.get(board)
    cpu_khz, emc_hz = device.tables.cpu_khz.values[-1], device.tables.emc_hz.values[-1]
    modes = [PowerMode(device.cores, cpu_khz, gpu_hz, emc_hz) for gpu_hz in device.tables.gpu_hz.values]
    sizes = [size for size in batches.BATCH_SIZES if size <= batches.largest_batch(model)]
    return BatchTable.of(batches.measured(board, model, sizes, modes))


def relation(model: str) -> Relation:
    return Relation.measured({size: [n] for size, n in batches.samples_needed(model, "proxy").items()})


def scores(board: str, model: str, data_set: str, limit_w: float | None) -> dict[str, PlanScore]:
    safe = worst_case_column([along_gpu(board, name) for name in MODELS], limit_w)
    target = Target(batches.samples_needed(model, data_set), relation(model))
    plans = ("staircase", *BASELINES, "fastest")
    return {s.plan: s for s in score_plans(along_gpu(board, model), target, limit_w, safe, plans)}


def times(score_of: dict[str, PlanScore]) -> tuple[float, float]:
    """Return how many times longer than the joint choice each baseline takes."""
    joint_s, first_s, second_s = (score_of[name].time_s or float("nan") for name in ("staircase", *BASELINES))
    return first_s / joint_s, second_s / joint_s


@pytest.mark.parametrize("board", list(LIMITS))
@pytest.mark.parametrize("model", MODELS)
def test_the_joint_choice_beats_both_baselines_within_the_peak_limit(board: str, model: str) -> None:
    strictly = False
    for data_set in ("target-a", "target-b"):
        for limit_w in LIMITS[board]:
            score_of = scores(board, model, data_set, limit_w)
            assert min(times(score_of)) >= 1 - 1e-9
            assert not score_of["staircase"].over_limit
            assert score_of["staircase"].over_fastest_pct is not None
            assert score_of["staircase"].over_fastest_pct <= 10.0
            strictly |= limit_w is not None and min(times(score_of)) > 1
    assert strictly


@pytest.mark.parametrize("model", MODELS)
def test_the_default_is_never_slower_than_a_baseline_on_the_nano(model: str) -> None:
    sizes = [size for size in batches.BATCH_SIZES if size <= batches.largest_batch(model)]
    truth = BatchTable.of(batches.measured("nano", model, sizes, batches.thinned_modes("nano")))
    target = Target(batches.samples_needed(model, "target-a"), relation(model))
    for limit_w in LIMITS["nano"]:
        paper = scores("nano", model, "target-a", limit_w)
        ours = score_plans(truth, target, limit_w, 0, ("transfer",), shipped(), seed=0)[0]
        assert ours.time_s is not None
        assert not ours.over_limit
        assert all(ours.time_s <= (1 + 1e-9) * (paper[baseline].time_s or 0.0) for baseline in BASELINES)


def test_the_worst_case_clocks_of_the_nano_are_the_papers() -> None:
    tables = [along_gpu("nano", model) for model in MODELS]
    mhz = [tables[0].modes[worst_case_column(tables, limit_w), 2] // 1e6 for limit_w in LIMITS["nano"]]
    assert mhz == [307, 614, 921]


def candidates(watts: float, needed: dict[int, float]) -> dict[int, tuple[float, int]]:
    """Return the winner first, then the others: batch size → time a sample, MHz."""
    limits = Limits(power_w=watts, power_statistic=PowerStatistic.PEAK)
    table = along_gpu("nano", "resnet18-cifar")
    compared = [profile for profile in table.profiles() if profile.batch_size in needed]
    choice = choose_batch(compared, Relation.measured({b: [n] for b, n in needed.items()}), limits=limits)
    return {c.batch_size: (c.sample_s, int(table.modes[c.row, 2] // 1e6)) for c in choice.candidates}


def test_at_5_watts_64_samples_at_460_mhz_beat_128_at_307() -> None:
    sizes = candidates(5.0, {64: 1.0, 128: 1.0})
    assert list(sizes) == [64, 128]
    assert [mhz for _, mhz in sizes.values()] == [460, 307]
    assert 1 - sizes[64][0] / sizes[128][0] == pytest.approx(0.319, abs=0.06)


@pytest.mark.parametrize(("watts", "winner"), [(4.5, 8), (5.0, 8), (7.0, 32)])
def test_8_samples_win_at_4_5_and_5_watts_and_32_at_7(watts: float, winner: int) -> None:
    sizes = candidates(watts, {8: 10.0, 32: 15.0})
    assert next(iter(sizes)) == winner
    assert sizes[32][0] < sizes[8][0]


def test_the_least_energy_is_another_pair_than_the_least_time() -> None:
    table, r = along_gpu("nano", "char-transformer"), relation("char-transformer")
    fast, frugal = (choose_batch(table.profiles(), r, goal).best for goal in (Objective.MIN_TIME, Objective.MIN_ENERGY))
    assert fast is not None
    assert frugal is not None
    assert (fast.batch_size, fast.row) != (frugal.batch_size, frugal.row)
    assert frugal.energy < 0.95 * fast.energy


def test_data_sets_and_workloads_that_are_not_known_are_named() -> None:
    with pytest.raises(UnknownWorkloadError, match="no data set 'mnist'; known: proxy"):
        batches.samples_needed("mobilenet-v2", "mnist")
    with pytest.raises(UnknownWorkloadError, match="convergence of workload 'lstm' is not known"):
        batches.largest_batch("lstm")
