"""The session says whether its training uses the GPU, as often as that changes but not as often as it is said."""

from __future__ import annotations

from powertrain.api.conditions import find
from powertrain_agent.steps import Kind, TrainingSaid

from .machine_harness import SessionHarness, spec


def says(harness: SessionHarness, on_gpu: bool) -> None:
    harness.take(TrainingSaid(Kind.DEVICE, harness.now_s, float(on_gpu)))


def uses_gpu(harness: SessionHarness) -> tuple[str, str] | None:
    condition = find(harness.record.conditions, "UsesGPU")
    return None if condition is None else (condition.status.value, condition.reason)


def test_a_training_that_says_nothing_has_no_such_condition() -> None:
    harness = SessionHarness(spec())
    harness.trains = True
    harness.second(3)
    assert uses_gpu(harness) is None


def test_a_training_on_the_cpu_is_a_condition_within_a_second() -> None:
    harness = SessionHarness(spec())
    says(harness, on_gpu=False)
    harness.second()
    assert uses_gpu(harness) == ("False", "OnCPU")


def test_a_restarted_container_that_uses_the_gpu_changes_it_after_a_minute() -> None:
    harness = SessionHarness(spec())
    says(harness, on_gpu=False)
    harness.second(2)
    says(harness, on_gpu=True)
    harness.second(30)
    assert uses_gpu(harness) == ("False", "OnCPU"), "a container that says both in turns must not flood the server"
    harness.second(40)
    assert uses_gpu(harness) == ("True", "OnGPU")
