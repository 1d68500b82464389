"""Running `powertrain` in the test's own process, the way its entry point runs."""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from powertrain_cli import main

HEADER = "cpu_cores,cpu_khz,gpu_hz,emc_hz,batch_size,time_ms,power_w"
# The last two rows are slower and hungrier than the second and the third.
ROWS = (
    "12,2201600,1300500000,3199000000,16,50,50",
    "8,1728000,624750000,3199000000,16,80,30",
    "4,1113600,420750000,2133000000,16,200,18",
    "2,268800,114750000,204000000,16,1000,11",
    "8,1728000,624750000,2133000000,16,90,31",
    "4,1036800,420750000,2133000000,16,210,18.5",
)


@dataclass(frozen=True)
class Result:
    """How a run of the command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Return where the command's temporary files are."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def powertrain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scratch: Path) -> Command:
    """Return the command as a function of its arguments."""
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def command(*arguments: str | Path) -> Result:
        monkeypatch.setattr(sys, "argv", ["powertrain", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.run()
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return command


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a small table of one batch size."""
    path = tmp_path / "small.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


@pytest.fixture
def two_sizes(tmp_path: Path) -> Path:
    """Return a small table of two batch sizes."""
    path = tmp_path / "two.csv"
    path.write_text("\n".join([HEADER, *ROWS, *(row.replace(",16,", ",32,") for row in ROWS[:3])]) + "\n")
    return path
