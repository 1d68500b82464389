"""The class of a status field is a mark on the model: what can wait, and what is written at once."""

from powertrain.api.base import DETAIL, FIGURE, defaults_of
from powertrain.api.session import SessionStatus
from powertrain.api.training_job import JobNode, TrainingJobStatus


def test_figures_are_what_grows_or_wavers() -> None:
    assert set(defaults_of(JobNode, FIGURE)) == {"observed", "training", "energy_joules", "profile", "history"}
    assert set(defaults_of(TrainingJobStatus, FIGURE)) == {
        "power_watts",
        "energy_joules",
        "progress",
        "eta",
        "remaining",
    }
    assert set(defaults_of(SessionStatus, FIGURE)) == {"observed", "training", "energy_joules", "message"}


def test_a_claim_is_a_decision() -> None:
    waits = defaults_of(JobNode, FIGURE, DETAIL)
    assert {"name", "holds", "session", "job"}.isdisjoint(waits)
    assert waits["mode"] is None
