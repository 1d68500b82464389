"""When a live `tune` has seen enough of the mode that it chose."""

from powertrain.api.v1alpha1 import Phase, Reason, SessionStatus
from powertrain_cli.live_choice import OBSERVED_S, Choice

MODE, OTHER = "12c_1728000_624750000_3199000000", "12c_1651200_624750000_2133000000"


def status(reason: Reason = Reason.CHOSEN, phase: Phase = Phase.RUNNING, mode: str = MODE) -> SessionStatus:
    return SessionStatus(uid="1", phase=phase, reason=reason, mode=mode)


def test_figures_right_after_the_choice_are_not_those_of_the_mode() -> None:
    choice = Choice(time_scale=1.0)
    choice.take(status(), 100.0)
    choice.take(status(), 100.0 + OBSERVED_S / 2)
    assert choice.status is not None
    assert not choice.is_observed
    choice.take(status(), 100.0 + OBSERVED_S)
    assert choice.is_observed


def test_the_time_is_the_boards() -> None:
    choice = Choice(time_scale=10.0)
    choice.take(status(), 100.0)
    choice.take(status(), 100.0 + OBSERVED_S / 10)
    assert choice.is_observed


def test_a_check_or_another_mode_begins_anew_and_keeps_the_choice() -> None:
    choice = Choice(time_scale=1.0)
    choice.take(status(), 0.0)
    choice.take(status(), OBSERVED_S)
    choice.take(status(reason=Reason.CHECK, mode=OTHER), OBSERVED_S)
    assert choice.status == status()
    assert not choice.is_observed
    choice.take(status(), OBSERVED_S + 1)
    assert not choice.is_observed
    choice.take(status(mode=OTHER), 2 * OBSERVED_S + 1)
    assert not choice.is_observed


def test_profiling_is_no_choice() -> None:
    choice = Choice(time_scale=1.0)
    choice.take(status(reason=Reason.PROFILING, phase=Phase.PROFILING), 0.0)
    assert choice.status is None
