"""Simulated boards for the tests of the agent, in memory where the machine has a memory file system."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from powertrain_agent.simulate import ManualClock, SimulatedBoard, SimulatedSysfs

SHARED_MEMORY = Path("/dev/shm")

BoardFactory = Callable[..., SimulatedBoard]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def host_dir(tmp_path: Path) -> Iterator[Path]:
    """An empty directory that becomes a board's root: in memory, because a tree has hundreds of files."""
    if not SHARED_MEMORY.is_dir():
        yield tmp_path / "host"
        return
    directory = Path(tempfile.mkdtemp(prefix="powertrain-", dir=SHARED_MEMORY))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def board(host_dir: Path, clock: ManualClock) -> BoardFactory:
    """Build a simulated board by its catalogue name; a second call makes a second board."""
    pods: list[str] = []

    def make(name: str = "orin-agx", **options: object) -> SimulatedBoard:
        pods.append(name)
        options = {"now": clock, "timeout_s": None, **options}
        return SimulatedBoard.create(host_dir / f"{len(pods)}-{name}", name, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture
def tree(board: BoardFactory) -> Callable[..., SimulatedSysfs]:
    """Build a simulated board and return the port to its files."""

    def make(name: str = "orin-agx", **options: object) -> SimulatedSysfs:
        return board(name, **options).sysfs

    return make
