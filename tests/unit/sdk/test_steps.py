"""The training's own calls: they count, they report what was reached, and they never raise into it."""

import json

import pytest

from powertrain_sdk import settings, steps
from powertrain_sdk.sender import Sender

STEP, EPOCH, REACHED = 1, 2, 3


@pytest.fixture
def reporter(session, clock, monkeypatch) -> steps.Reporter:
    new_reporter = steps.Reporter(Sender(session.environ, clock))
    monkeypatch.setattr(steps, "_reporter", new_reporter)
    return new_reporter


@pytest.fixture
def message(tmp_path, monkeypatch):
    """Return what the container's termination message says, None while there is none."""
    path = tmp_path / "termination"
    monkeypatch.setenv("POWERTRAIN_TERMINATION_LOG", str(path))
    return lambda: json.loads(path.read_text()) if path.exists() else None


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch) -> None:
    for name in ("POWERTRAIN_BATCH_SIZE", "POWERTRAIN_LEARNING_RATE", "POWERTRAIN_TARGET_ACCURACY", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(settings, "_own_batch_size", None)
    monkeypatch.setattr(settings, "_complained", set())


@pytest.mark.parametrize("nonsense", ["x", None, [], float("nan"), float("inf")])
def test_a_nonsensical_count_raises_nothing_and_counts_nothing(reporter, session, nonsense) -> None:
    steps.step(nonsense)
    steps.step()
    assert [each.total for each in session.datagrams()] == [1]


def test_a_broken_sender_raises_nothing_into_the_training(monkeypatch) -> None:
    monkeypatch.setattr(steps, "_reporter", None)
    steps.step()
    steps.hook_step()
    steps.epoch()
    assert steps.reached(0.9) is False


def test_the_training_s_own_steps_replace_the_hook_s_and_none_counts_twice(reporter, session, clock) -> None:
    for _ in range(5):
        steps.hook_step()
        steps.step()
        clock.sleep(1)
    assert session.datagrams()[-1].total == 5


def test_own_steps_reported_ten_at_a_time_are_credited_with_what_the_hook_saw(reporter, clock) -> None:
    for index in range(1, 31):
        clock.sleep(1)
        steps.hook_step()
        if index % 10 == 0:
            steps.step(10)
    assert reporter.sender.total == 30


def test_a_forked_child_owes_nothing_for_what_its_parent_s_hook_counted(reporter) -> None:
    for _ in range(5):
        steps.hook_step()
    reporter.sender.forget()
    steps.step(3)
    assert reporter.sender.total == 3


def test_an_epoch_is_told(reporter, session) -> None:
    steps.epoch()
    assert [(each.kind, each.value) for each in session.datagrams()] == [(EPOCH, 1.0)]


def test_reaching_an_accuracy_writes_the_samples_it_took(reporter, session, message, monkeypatch) -> None:
    monkeypatch.setenv("POWERTRAIN_BATCH_SIZE", "16")
    monkeypatch.setenv("POWERTRAIN_LEARNING_RATE", "5e-4")
    steps.step(250)
    steps.epoch()
    assert steps.reached(0.91) is True
    text = message()
    assert text.pop("seconds") is not None
    assert text == {
        "accuracy": 0.91,
        "batchSize": 16,
        "epochs": 1,
        "learningRate": 0.0005,
        "samples": 4000,
        "steps": 250,
    }
    assert [(each.kind, each.value) for each in session.datagrams()][-1] == (REACHED, 0.91)


def test_only_the_first_time_counts(reporter, session, message) -> None:
    steps.step(10)
    steps.reached(0.90)
    steps.step(10)
    assert steps.reached(0.95) is True
    assert (message()["steps"], message()["accuracy"]) == (10, 0.90)
    assert [each.kind for each in session.datagrams()].count(REACHED) == 1


def test_below_the_cluster_s_target_nothing_is_reached(reporter, message, monkeypatch) -> None:
    monkeypatch.setenv("POWERTRAIN_TARGET_ACCURACY", "0.9")
    assert [steps.reached(accuracy) for accuracy in (0.5, float("nan"), 0.899)] == [False] * 3
    assert message() is None
    assert steps.reached(0.9) is True


def test_without_a_batch_size_the_steps_alone_are_told(reporter, message) -> None:
    steps.step(3)
    steps.reached(0.9)
    assert (message()["samples"], message()["steps"]) == (None, 3)


def test_the_training_s_own_batch_size_counts_where_the_cluster_chose_none(reporter, message) -> None:
    settings.batch_size(32)
    steps.step(3)
    steps.reached(0.9)
    assert (message()["batchSize"], message()["samples"]) == (32, 96)


def test_another_rank_writes_no_message(reporter, message, monkeypatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert steps.reached(0.9) is True
    assert message() is None


def test_no_termination_file_is_made_where_kubernetes_made_none(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("POWERTRAIN_TERMINATION_LOG", raising=False)
    monkeypatch.setattr(steps, "TERMINATION_LOG", str(tmp_path / "termination-log"))
    assert steps.write_termination_message("x") is False
    (tmp_path / "termination-log").write_text("what an earlier, longer message said")
    assert steps.write_termination_message("x") is True
    assert (tmp_path / "termination-log").read_text() == "x"


def test_the_cluster_s_choice_wins_over_the_default(monkeypatch) -> None:
    assert (settings.batch_size(8), settings.learning_rate(0.1)) == (8, 0.1)
    monkeypatch.setenv("POWERTRAIN_BATCH_SIZE", "64")
    monkeypatch.setenv("POWERTRAIN_LEARNING_RATE", "3e-4")
    assert (settings.batch_size(8), settings.learning_rate(0.1)) == (64, 3e-4)


@pytest.mark.parametrize("text", ["many", "0", "-4", "1.5"])
def test_a_bad_batch_size_is_said_once_and_not_used(monkeypatch, capsys, text) -> None:
    monkeypatch.setenv("POWERTRAIN_BATCH_SIZE", text)
    assert [settings.batch_size(8) for _ in range(3)] == [8, 8, 8]
    assert capsys.readouterr().err.count(f"POWERTRAIN_BATCH_SIZE={text!r} is not used") == 1


@pytest.mark.parametrize("text", ["nan", "inf", "0"])
def test_a_bad_learning_rate_is_not_used(monkeypatch, text) -> None:
    monkeypatch.setenv("POWERTRAIN_LEARNING_RATE", text)
    assert settings.learning_rate(0.1) == 0.1


def test_a_study_gives_up_after_its_samples(reporter, message, monkeypatch) -> None:
    monkeypatch.setenv("POWERTRAIN_TARGET_ACCURACY", "0.9")
    monkeypatch.setenv("POWERTRAIN_BATCH_SIZE", "16")
    monkeypatch.setenv("POWERTRAIN_MAX_SAMPLES", "48")
    steps.step(2)
    assert steps.reached(0.5) is False
    steps.step()
    assert steps.reached(0.6) is True
    written = message()
    assert (written["capReached"], written["samples"], written["accuracy"]) == (True, 48, 0.6)
