"""An unmodified PyTorch training's steps arrive, with nothing but a directory in PYTHONPATH."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (make setup-nn)"),
]
TRAINING = str(Path(__file__).parent / "training.py")


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        (("--accumulate", "4"), 6),
        (("--workers", "2", "--context", "fork"), 24),
        (("--workers", "1", "--context", "spawn"), 24),
        (("--compile",), 24),
    ],
    ids=["gradient accumulation", "forked workers", "spawned worker", "torch.compile"],
)
def test_the_first_optimizer_s_steps_arrive_from_one_process_alone(session, arguments, steps) -> None:
    result = session.run("-W", "ignore", TRAINING, *arguments, auto=True)
    assert result.stdout == "trained\n", result.stderr
    device, *datagrams = session.datagrams()
    assert (device.kind, device.value) == (4, 0.0), "this PyTorch computes on the CPU, which is said once and first"
    assert (datagrams[-1].total, sum(each.count for each in datagrams)) == (steps, steps)
    assert len({each.sender for each in [device, *datagrams]}) == 1
    assert {each.kind for each in datagrams} == {1}


def test_a_second_rank_trains_and_sends_nothing(session) -> None:
    result = session.run(TRAINING, environ={"LOCAL_RANK": "1"}, auto=True)
    assert result.stdout == "trained\n"
    assert session.datagrams() == []


def test_the_same_training_without_an_agent_trains_as_ever(session, tmp_path) -> None:
    nowhere = {"POWERTRAIN_SESSION_DIR": str(tmp_path / "absent")}
    result = session.run(TRAINING, environ=nowhere, auto=True)
    assert (result.stdout, result.stderr) == ("trained\n", "")


def test_a_training_that_also_calls_step_is_counted_once(session) -> None:
    code = """
import powertrain_sdk, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in powertrain_sdk.track(range(9)):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""
    assert session.run("-c", code, auto=True).returncode == 0
    assert session.datagrams()[-1].total == 9


def test_the_optimizer_module_keeps_its_own_loader(session) -> None:
    code = """
import inspect, torch.optim.optimizer as module
print(type(module.__loader__).__name__, type(module.__spec__.loader).__name__, len(inspect.getsource(module)) > 100)
"""
    result = session.run("-c", code, auto=True)
    assert result.stdout.split() == ["SourceFileLoader", "SourceFileLoader", "True"], result.stderr
