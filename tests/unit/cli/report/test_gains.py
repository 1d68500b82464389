"""What a chosen mode gains against NVIDIA's presets, by the model of what was measured."""

from dataclasses import replace

import pytest
from tests.unit.cli.report import example

from powertrain_cli.report import gains
from powertrain_cli.report.document import Basis, Point


def point(step_s: float, power_w: float, basis: Basis = Basis.PREDICTED) -> Point:
    return Point(mode="1c_1_1_1", human="1c", step_s=step_s, power_w=power_w, basis=basis)


def test_presets_are_predicted_near_what_the_board_does() -> None:
    for preset, predicted in gains.preset_points("orin-agx", example.samples()):
        if preset.watts is None:
            continue  # MAXN lies far above everything that was measured
        mode = example.DEVICE.preset_mode(preset)
        assert predicted.step_s == pytest.approx(example._step_s(mode), rel=0.25)
        assert predicted.basis is Basis.PREDICTED


def test_a_measured_preset_is_marked_as_measured() -> None:
    preset = next(each for each in example.DEVICE.presets if each.watts == 15)
    measured = replace(example.samples()[0], mode=example.DEVICE.preset_mode(preset), step_s=0.2, power_w=14.0)
    points = {each.name: point for each, point in gains.preset_points("orin-agx", [*example.samples(), measured])}
    assert points[preset.name].basis is Basis.MEASURED


@pytest.mark.parametrize(("device", "count"), [("raspberry", 9), ("orin-agx", 2)])
def test_nothing_is_predicted_of_an_unknown_board_or_from_too_little(device: str, count: int) -> None:
    assert gains.preset_points(device, example.samples()[:count]) == []


def test_the_preset_that_fits_is_the_highest_label_within_the_limit() -> None:
    presets = [(preset, point(0.1, 10.0)) for preset in example.DEVICE.presets]
    best = gains.fitting(presets, 49.0)
    assert best is not None
    assert best[0].watts == 30
    assert gains.fitting(presets, 12.0) is None


def test_the_sentence_names_the_preset_and_maxn_and_their_basis() -> None:
    presets = [
        (preset, point(0.2 if preset.watts else 0.05, preset.watts or 60.0)) for preset in example.DEVICE.presets
    ]
    assert gains.sentence(point(0.1, 22.0, Basis.MEASURED), presets, 22.0) == (
        "2.0× as fast as NVIDIA's 15 W preset (predicted); 50 % of the speed of MAXN at 22 instead of 60 W (predicted)"
    )


def test_the_energy_of_the_choice_is_a_multiple_of_the_others() -> None:
    compared = gains.compare(point(0.1, 20.0), "MAXN", point(0.05, 80.0), 22.0)
    assert (compared.speed_ratio, compared.energy_ratio, compared.keeps_limit) == (0.5, 0.5, False)
