"""Boards on a real arm64 kernel; where a machine can't run them, the reason is the skip's message."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from powertrain_devcluster.builds import prepare
from powertrain_devcluster.errors import MissingToolError, UnsupportedMachineError
from powertrain_devcluster.kernel.machine import Machine


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[[str], Machine]]:
    """Start a board's machine, or return the one that runs: they are dear, and each test leaves them as they were."""
    running: dict[str, Machine] = {}

    def started(board: str) -> Machine:
        if board not in running:
            # One at a time: each keeps a core of this machine busy.
            while running:
                running.popitem()[1].close()
            try:
                running[board] = Machine(board, prepare.Ready()).__enter__()
            except (MissingToolError, UnsupportedMachineError) as error:
                pytest.skip(str(error))
        return running[board]

    yield started
    for machine in running.values():
        machine.close()
