"""A training that fell back to the CPU says so once, to the user and to the agent; others do not warn."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from powertrain_sdk.gpu_check import WARNING, GpuCheck


def optimizer(*devices: str) -> SimpleNamespace:
    parameters = [SimpleNamespace(device=SimpleNamespace(type=device)) for device in devices]
    return SimpleNamespace(param_groups=[{"params": parameters}])


def words_after(capsys: pytest.CaptureFixture[str], stepped: object) -> tuple:
    """What the user reads, and what the agent is told: whether the training is on the GPU."""
    devices: list = []
    check = GpuCheck(devices.append)
    for _ in range(3):
        check.look(stepped)
    return capsys.readouterr().err, devices


@pytest.fixture
def governed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in ("POWERTRAIN_SIM_ROOT", "POWERTRAIN_EXPECT_CPU"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POWERTRAIN_SESSION_DIR", str(tmp_path))
    return monkeypatch


def test_it_warns_once(governed: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert words_after(capsys, optimizer("cpu", "cpu")) == (WARNING, [False])


def test_a_training_on_the_gpu_is_quiet(governed: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert words_after(capsys, optimizer("cuda")) == ("", [True])
    assert words_after(capsys, optimizer("cpu", "cuda")) == ("", [True])
    assert words_after(capsys, optimizer("xla")) == ("", [])


@pytest.mark.parametrize("name", ["POWERTRAIN_SIM_ROOT", "POWERTRAIN_EXPECT_CPU"])
def test_a_simulated_board_or_an_intention_is_quiet(
    governed: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    governed.setenv(name, "1")
    assert words_after(capsys, optimizer("cpu")) == ("", [])


def test_no_session_no_word(governed: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    governed.delenv("POWERTRAIN_SESSION_DIR")
    assert words_after(capsys, optimizer("cpu")) == ("", [])


def test_an_odd_optimizer_does_no_harm(governed: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert words_after(capsys, object()) == ("", [])
