"""The simulated board is held against a real kernel: one list of operations is played on both, answers are compared."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.kernel.operations import DIFFERENCES, operations

from powertrain_agent.simulate import SimulatedBoard
from powertrain_devcluster.kernel import modules
from powertrain_devcluster.kernel.machine import Machine

# Boards whose release has a kernel with the rules of today (PM QoS); R32's 4.9 has others.
BOARD = "orin-nx-16"


def _play() -> ModuleType:
    """The same program that plays inside the guest."""
    spec = importlib.util.spec_from_file_location("play", modules.sources() / "guest" / "play.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def answers(
    start: Callable[[str], Machine], tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[list[str], dict[str, Any], dict[str, Any]]]:
    """Each operation with the kernel's and the simulated board's answer."""
    machine = start(BOARD)
    all_operations = operations(machine.device)
    board = SimulatedBoard.create(tmp_path_factory.mktemp("simulated"), BOARD)
    real = machine.call("play:on_the_kernel", operations=all_operations)
    return list(zip(all_operations, real, _play().play(board.sysfs, all_operations), strict=True))


def _name(operation: list[str]) -> str:
    return f"{operation[0]} {operation[1]}"


def test_both_answer_the_same_apart_from_the_listed_differences(
    answers: list[tuple[list[str], dict[str, Any], dict[str, Any]]],
) -> None:
    unequal = [
        f"{_name(operation)}: the kernel {real}, the simulated board {simulated}"
        for operation, real, simulated in answers
        if real != simulated and _name(operation) not in DIFFERENCES
    ]
    assert not unequal, "\n".join(unequal)


def test_every_listed_difference_is_one(answers: list[tuple[list[str], dict[str, Any], dict[str, Any]]]) -> None:
    unequal = {_name(operation) for operation, real, simulated in answers if real != simulated}
    assert set(DIFFERENCES) <= unequal


def test_the_list_is_played_whole(answers: list[tuple[list[str], dict[str, Any], dict[str, Any]]]) -> None:
    assert len(answers) > 50


def test_the_sources_are_beside_the_builder() -> None:
    assert {path.name for path in Path(modules.sources()).iterdir()} >= {"init", "guest", "modules", "README.md"}
