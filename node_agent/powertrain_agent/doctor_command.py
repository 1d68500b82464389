"""`powertrain-agent doctor`: tries a board where only the agent's image is, with `kubectl exec` or `docker run`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from powertrain_agent.board_report import collect
from powertrain_agent.doctor import DoctorReport, run_doctor
from powertrain_agent.doctor_text import text
from powertrain_agent.simulate import open_port

NAME = "doctor"
# The chart sets both, so that `kubectl exec` needs no options.
HOST_ROOT, STATE_DIR = "POWERTRAIN_HOST_ROOT", "POWERTRAIN_STATE_DIR"
WORKS, DOES_NOT_WORK, BAD_INPUT, NO_JETSON = 0, 1, 2, 3


def parser() -> argparse.ArgumentParser:
    """Return the options; they are those of `powertrain doctor`."""
    options = argparse.ArgumentParser(
        prog=f"powertrain-agent {NAME}",
        description="Try every knob of this Jetson: read, write, verify, restore. Each knob is moved by one step for a "
        "moment and put back. Ends with 0 if PowerTrain can work here, 1 if not, 3 on a machine that is not a Jetson.",
    )
    options.add_argument(
        "--host-root",
        type=Path,
        default=Path(os.environ.get(HOST_ROOT, "/")),
        help=f"where the board's /sys and /proc are (${HOST_ROOT}, else /)",
    )
    options.add_argument("--read-only", action="store_true", help="write nothing at all")
    options.add_argument("--cores", action="store_true", help="also take one CPU core offline and back")
    options.add_argument(
        "--state-dir",
        type=Path,
        help=f"where the original settings are kept meanwhile (${STATE_DIR}/doctor, else var/lib/powertrain/doctor "
        "below the root)",
    )
    options.add_argument(
        "--report", type=Path, help="also write a JSON file from which a maintainer can add this board; it names nobody"
    )
    options.add_argument("--json", action="store_true", help="machine-readable output on stdout")
    return options


def examine(
    host_root: Path, read_only: bool, cores: bool, state_dir: Path | None, report_to: Path | None
) -> DoctorReport:
    """Try the board, and write the file for a maintainer where one is wanted; OSError if that can't be written."""
    port = open_port(host_root)
    report = run_doctor(port, read_only, state_dir or _state_dir(host_root), cores)
    if report_to is not None and report.is_jetson:
        _write(report_to, collect(port, report))
    return report


def exit_code(report: DoctorReport) -> int:
    """Return how a doctor's process ends."""
    if not report.is_jetson:
        return NO_JETSON
    return WORKS if report.healthy else DOES_NOT_WORK


def run(arguments: Sequence[str]) -> int:
    """Examine the board, print what was found and return the exit code."""
    options = parser().parse_args(arguments)
    try:
        report = examine(options.host_root, options.read_only, options.cores, options.state_dir, options.report)
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or options.report}: {error.strerror or error}\n")
        return BAD_INPUT
    if options.json:
        sys.stdout.write(json.dumps(report.as_dict(), indent=2) + "\n")
    else:
        sys.stdout.write(text(report, terminal_width()))
    return exit_code(report)


def terminal_width() -> int | None:
    """Return the terminal's width; None where the output goes to a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _state_dir(host_root: Path) -> Path:
    own = os.environ.get(STATE_DIR)
    return (Path(own) if own else host_root / "var/lib/powertrain") / NAME


def _write(target: Path, document: dict[str, Any]) -> None:
    target.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
