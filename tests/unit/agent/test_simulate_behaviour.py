"""Simulated loads draw power as real ones do (phases, pulses, pauses), and sensors lag, wait, average and scatter."""

import math
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from powertrain import devices
from powertrain_agent.simulate import ManualClock, SimulatedBoard, workloads
from powertrain_agent.simulate.behaviour import Behaviour, UnknownBehaviourError, names, square_mean

SETTLED_S = 20.0


def trained(root: Path, behaviour: str, workload: str = "resnet18") -> tuple[SimulatedBoard, ManualClock]:
    clock = ManualClock()
    board = SimulatedBoard.create(root, "orin-agx", now=clock, timeout_s=None, behaviour=behaviour)
    board.load(workload)
    clock.advance(SETTLED_S)
    return board, clock


def readings(board: SimulatedBoard, clock: ManualClock, seconds: float) -> np.ndarray:
    values = []
    for _ in range(round(seconds / 0.1)):
        clock.advance(0.1)
        values.append(board.sysfs.instant().measured_w)
    return np.array(values)


def scatter(values: np.ndarray) -> float:
    return float(values.std() / values.mean())


def test_quiet_readings_scatter_by_the_sensor_noise_alone(tmp_path: Path) -> None:
    assert scatter(readings(*trained(tmp_path, "quiet"), 30.0)) == pytest.approx(0.01, rel=0.2)


def test_typical_readings_scatter_as_on_a_board_over_workloads_and_modes() -> None:
    behaviour, rng = Behaviour.parse("typical"), np.random.default_rng(0)
    space, scatters = devices.get("orin-nano").space(), []
    for workload, row in ((name, int(row)) for name in workloads.names() for row in rng.integers(0, len(space), 20)):
        step_s = workloads.evaluate("orin-nano", workload, 16, space[row]).step_s
        at = 1000.0 + np.arange(0.0, 30.0, 0.1) + 0.1 * rng.random(300)
        power = np.array([behaviour.phase(f"{workload}:{space[row]}", t, t, step_s) for t in at])
        scatters.append(scatter(power * rng.normal(1.0, behaviour.noise, at.size)))
    assert 0.02 <= float(np.median(scatters)) <= 0.025
    assert 0.045 <= float(np.percentile(scatters, 90)) <= 0.065
    assert max(scatters) <= 0.14


def test_phases_leave_the_mean_power_as_it_is(tmp_path: Path) -> None:
    board, clock = trained(tmp_path, "typical")
    assert readings(board, clock, 120.0).mean() == pytest.approx(board.power_w(), rel=0.004)


def test_neighbouring_typical_readings_are_uncorrelated_where_steps_are_short(tmp_path: Path) -> None:
    values = readings(*trained(tmp_path, "typical", "lstm"), 60.0)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.15


@pytest.mark.parametrize("period_s", [2.0, 20.0])
def test_pulses_have_their_share_and_period(tmp_path: Path, period_s: float) -> None:
    board, clock = trained(tmp_path, f"quiet,noise=0,pulse_share=0.1,pulse_s={period_s}")
    values = readings(board, clock, 2 * period_s)
    assert values.max() / values.mean() == pytest.approx(1.05, abs=0.004)
    assert values.min() / values.mean() == pytest.approx(0.95, abs=0.004)
    high = values > values.mean()
    assert int((high[1:] & ~high[:-1]).sum()) in (1, 2)


def test_a_checkpoint_pauses_the_steps_and_lowers_the_power(tmp_path: Path) -> None:
    board, clock = trained(tmp_path, "quiet,pause_every_s=30,pause_s=4")
    full_w = board.sysfs.instant().measured_w
    clock.advance(28.0 - SETTLED_S)
    assert math.isinf(board.step_s())
    assert board.sysfs.instant().measured_w < 0.5 * full_w
    clock.advance(4.0)
    assert math.isfinite(board.step_s())
    assert board.sysfs.instant().measured_w == pytest.approx(full_w, rel=0.08)


def test_an_evaluation_pauses_the_steps_at_another_power(tmp_path: Path) -> None:
    board, clock = trained(tmp_path, "quiet,noise=0,evaluate_every_s=30,evaluate_s=5,evaluate_power=0.8")
    clock.advance(27.0 - SETTLED_S)
    assert math.isinf(board.step_s())
    assert board.sysfs.instant().measured_w == pytest.approx(0.8 * board.power_w(), rel=0.01)


def lowered(board: SimulatedBoard) -> None:
    """Lower the clocks as a change of mode does: several writes at once."""
    for path in (f"{board.sysfs.layout.devfreq}/max_freq", f"{board.sysfs.layout.devfreq}/min_freq"):
        board.sysfs.write(path, str(board.device.tables.gpu_hz.values[0]))


@pytest.mark.parametrize("lag_s", [0.3, 2.0])
def test_power_follows_a_change_with_the_lag(tmp_path: Path, lag_s: float) -> None:
    board, clock = trained(tmp_path, f"quiet,noise=0,lag_s={lag_s}")
    before_w = board.power_w()
    lowered(board)
    after_w = board.sysfs.instant().steady_w
    clock.advance(lag_s)
    assert board.power_w() == pytest.approx(after_w + (before_w - after_w) * math.exp(-1.0), rel=1e-6)


def test_a_late_sensor_shows_the_course_of_the_power_unchanged_but_later(tmp_path: Path) -> None:
    courses = []
    for delay_s in (0.0, 0.5):
        board, clock = trained(tmp_path / str(delay_s), f"quiet,noise=0,averaging_s=0.001,delay_s={delay_s}")
        values = list(readings(board, clock, 1.0))
        lowered(board)
        values += list(readings(board, clock, 0.6))
        board.jetson_clocks()
        courses.append(np.array(values + list(readings(board, clock, 3.0))))
    assert courses[1][5:] == pytest.approx(courses[0][:-5], rel=0.002)


def test_an_averaging_sensor_repeats_its_value_until_the_next_average(tmp_path: Path) -> None:
    values = readings(*trained(tmp_path, "averaging"), 20.0)
    assert 0.2 <= np.mean(np.diff(values) != 0) <= 0.28


def test_the_behaviour_lies_in_a_file_and_can_change_while_a_load_runs(tmp_path: Path) -> None:
    board, clock = trained(tmp_path, "quiet")
    board.behave("noisy,phases=0")
    again = SimulatedBoard.open(tmp_path, now=clock, timeout_s=None)
    assert scatter(readings(again, clock, 30.0)) == pytest.approx(0.03, rel=0.2)


def test_every_name_makes_a_load_that_can_be_read(tmp_path: Path) -> None:
    for name in names():
        board, clock = trained(tmp_path / name, name)
        assert all(watts > 1.0 for watts in islice(readings(board, clock, 3.0), 30))


def test_unknown_names_fields_and_values_are_refused_with_those_that_are_known() -> None:
    for text, word in (("wild", "pulsing"), ("quiet,depth=3", "pulse_share"), ("quiet,noise=x", "field=number")):
        with pytest.raises(UnknownBehaviourError, match=word):
            Behaviour.parse(text)
    with pytest.raises(UnknownBehaviourError, match="noise"):
        Behaviour.parse("quiet,noise=-1")


def test_the_mean_of_a_square_wave_over_a_span_is_its_integral() -> None:
    at = np.linspace(0.3, 4.1, 200001)
    wave = np.where((at / 1.7) % 1.0 < 0.7, 0.3, -0.7)
    assert square_mean(0.3, 4.1, 1.7, 0.7) == pytest.approx(float(wave.mean()), abs=1e-4)
    assert square_mean(0.5, 0.5, 1.7, 0.7) == pytest.approx(0.3)
