"""Batch size as an input of the model: sizes between the measured ones are predicted, others refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from powertrain.batching.model import BatchModel, BatchSizeError
from powertrain.evaluation import EvaluationError
from powertrain.evaluation.batch_sizes import UnseenSettings, evaluate_unseen, interpolated
from powertrain.evaluation.board import Board
from powertrain.evaluation.plausibility import plausible_rows
from powertrain.objectives import Work
from powertrain.profiling import Aim, Problem
from powertrain.reference import shipped
from powertrain.sample_csv import read_csv
from powertrain.samples import SampleTable
from powertrain.session import Done, ProfilingSession
from powertrain.space import ModeSpace


def spread(table: SampleTable, sizes: tuple[int, ...], count: int, seed: int = 0) -> SampleTable:
    """Return `count` random rows of each size."""
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(np.flatnonzero(table.batch_size == size))[:count] for size in sizes]
    return table.take(np.concatenate(rows))


@pytest.fixture(scope="module")
def model(batch_table, space: ModeSpace, reference) -> BatchModel:
    return BatchModel(reference.physics, space.matrix).fit(spread(batch_table, (1, 16, 64), 13))


@pytest.mark.parametrize("size", [4, 32])
def test_a_size_between_the_measured_ones_is_predicted_from_39_samples(model, batch_table, size: int) -> None:
    truth, predicted = batch_table.at_batch_size(size), model.predict(size)
    time_error = np.abs(predicted.time_s / truth.step_s - 1)
    power_error = np.abs(predicted.power_w / truth.power_w - 1)
    assert time_error.mean() < 0.05
    assert power_error.mean() < 0.04
    inside = np.abs(predicted.time_s - truth.step_s) <= 1.96 * predicted.time_std_s
    assert inside.mean() > 0.8


@pytest.mark.parametrize("size", [128, 0])
def test_a_size_beyond_the_measured_ones_is_refused(model, size: int) -> None:
    with pytest.raises(BatchSizeError, match=r"1 to 64.*never extrapolated"):
        model.predict(size)


def test_an_unmeasured_size_is_less_sure_than_a_measured_one(model) -> None:
    between, measured = model.predict(4), model.predict(16)
    assert np.median(between.time_std_s / between.time_s) > np.median(measured.time_std_s / measured.time_s)


def test_unseen_sizes_of_the_measured_lstm_keep_the_goal() -> None:
    folder = Path(os.environ.get("POWERTRAIN_DATA", Path(__file__).resolve().parents[3].parent / "shared" / "data"))
    path = folder / "orin-agx.infer.lstm.csv"
    if not path.exists():
        pytest.skip(f"the measured tables are not here: {path} (set POWERTRAIN_DATA to their folder)")
    evaluation = evaluate_unseen(read_csv(path), shipped(), UnseenSettings(samples=40, seeds=1))[0]
    assert (evaluation["batch_size"], evaluation["profiled"]) == ("unseen", [1, 16, 64])
    assert evaluation["mape_time_pct"]["median"] <= 5.0
    assert evaluation["mape_power_pct"]["median"] <= 4.0


def test_samples_of_other_sizes_spare_a_session_most_of_its_modes(batch_table, reference) -> None:
    other = tuple(spread(batch_table, (1, 64), 12))
    board = Board.of(batch_table.at_batch_size(16))
    errors = {}
    for name, elsewhere in (("alone", ()), ("helped", other)):
        problem = Problem(
            board.space, aim=Aim.ACCURACY, work=Work(batch_size=16), max_modes=3, min_gain=0.0, elsewhere=elsewhere
        )
        session = ProfilingSession(problem, "transfer", reference)
        while not isinstance(answer := session.ask(), Done):
            session.tell(board.measure(answer.mode, 0))
        again = ProfilingSession.from_dict(session.to_dict(), reference)
        prediction = again.predict()
        assert prediction is not None
        errors[name] = float(np.mean(np.abs(prediction.time_s / board.truth.step_s - 1)))
    assert errors["helped"] < 0.6 * errors["alone"]


def test_samples_of_the_own_size_are_no_samples_from_elsewhere(batch_table, space: ModeSpace) -> None:
    with pytest.raises(ValueError, match="other batch sizes than 16"):
        Problem(space, work=Work(batch_size=16), elsewhere=tuple(spread(batch_table, (16,), 1)))


def test_unseen_sizes_are_scored_and_reported_each(batch_table, reference) -> None:
    results = evaluate_unseen(batch_table, reference, UnseenSettings(samples=12, seeds=1))
    labels = ["unseen", "unseen, plausible rows", 4, 32]
    assert [(result["strategy"], result["batch_size"]) for result in results] == [
        (strategy, label) for strategy in ("transfer", "linear", "log-linear") for label in labels
    ]
    assert results[0]["profiled"] == [1, 16, 64]
    assert results[0]["mape_time_pct"]["median"] == pytest.approx(
        np.mean([result["mape_time_pct"]["median"] for result in results[2:4]])
    )


def test_interpolation_is_exact_where_its_law_holds(batch_table) -> None:
    low, high = (batch_table.at_batch_size(size) for size in (4, 64))
    straight, curved = (interpolated(low, high, 16, linear) for linear in (True, False))
    assert straight.time_s == pytest.approx(0.8 * low.step_s + 0.2 * high.step_s)
    assert curved.power_w == pytest.approx(np.sqrt(low.power_w * high.power_w))


def test_sizes_with_different_modes_are_refused(batch_table, reference) -> None:
    with pytest.raises(EvaluationError, match="the same modes"):
        evaluate_unseen(batch_table.take(np.arange(len(batch_table) - 1)), reference, UnseenSettings())


def test_three_sizes_leave_nothing_to_score(batch_table, reference) -> None:
    with pytest.raises(EvaluationError, match="at least 4 are needed"):
        evaluate_unseen(batch_table.take(batch_table.batch_size < 32), reference, UnseenSettings())


def test_a_row_faster_than_all_higher_clocks_is_implausible(target_table) -> None:
    assert plausible_rows(target_table).all()
    wrong = target_table.step_s.copy()
    wrong[0] /= 50
    broken = SampleTable(target_table.matrix, target_table.batch_size, wrong, target_table.power_w)
    assert np.flatnonzero(~plausible_rows(broken)).tolist() == [0]
