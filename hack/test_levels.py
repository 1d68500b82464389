"""Runs every level of tests that is there, and ends with one table: level, passed, skipped and why, seconds.

Each level is a pytest process of its own with its output passed through; what needs torch runs last. The exit code is
not 0 when any test failed or a level could not run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_TESTS_COLLECTED = 5


@dataclass(frozen=True)
class Level:
    """One folder of tests, and which of them."""

    name: str
    folder: str
    select: tuple[str, ...] = ()


LEVELS = (
    Level("unit", "tests/unit", ("-m", "not torch")),
    Level("cluster", "tests/cluster"),
    Level("node", "tests/node"),
    Level("chart", "tests/chart"),
    Level("torch", "tests/unit", ("-m", "torch")),
)


@dataclass(frozen=True)
class Outcome:
    """What one level came to."""

    level: str
    passed: int
    failed: int
    skipped: Counter[str]
    seconds: float
    broken: bool = False


def read_report(path: Path) -> tuple[int, int, Counter[str]]:
    """Passed, failed and the reasons of the skipped from a junit file."""
    passed = failed = 0
    skipped: Counter[str] = Counter()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif skip is not None:
            skipped[skip.get("message", "no reason").removeprefix("Skipped: ")] += 1
        else:
            passed += 1
    return passed, failed, skipped


def run(level: Level, reports: Path) -> Outcome:
    """Run one level with its output on the terminal."""
    print(f"\n== {level.name}: {level.folder} {' '.join(level.select)}".rstrip(), flush=True)
    report = reports / f"{level.name}.xml"
    began_s = time.monotonic()
    command = [sys.executable, "-m", "pytest", level.folder, *level.select, f"--junitxml={report}"]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    seconds = time.monotonic() - began_s
    passed, failed, skipped = read_report(report) if report.is_file() else (0, 0, Counter[str]())
    broken = code not in (0, NO_TESTS_COLLECTED) and failed == 0
    return Outcome(level.name, passed, failed, skipped, seconds, broken)


def table(outcomes: Sequence[Outcome]) -> str:
    """The levels, one line each, and a line for each reason to skip."""
    lines = [f"{'level':<9}{'passed':>7}{'failed':>7}{'skipped':>8}{'seconds':>9}"]
    for each in outcomes:
        count = sum(each.skipped.values())
        note = "  could not run" if each.broken else ""
        lines.append(f"{each.level:<9}{each.passed:>7}{each.failed:>7}{count:>8}{each.seconds:>9.0f}{note}")
        lines += [f"{'':<9}skipped {number} × {reason}" for reason, number in each.skipped.most_common()]
    return "\n".join(lines)


def main() -> int:
    """Run all levels; 1 when anything failed."""
    with tempfile.TemporaryDirectory(prefix="powertrain-reports-") as folder:
        outcomes = [run(level, Path(folder)) for level in LEVELS if (ROOT / level.folder).is_dir()]
    passed = sum(each.passed for each in outcomes)
    failed = sum(each.failed for each in outcomes)
    skipped = sum(sum(each.skipped.values()) for each in outcomes)
    print(f"\n{table(outcomes)}\n\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or any(each.broken for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
