"""The summary over the levels of tests counts what pytest reported and shows why tests were skipped."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "hack" / "test_levels.py"


@pytest.fixture(scope="module")
def levels() -> ModuleType:
    spec = importlib.util.spec_from_file_location("levels_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_report_is_counted_with_the_reasons_of_the_skipped(levels: ModuleType, tmp_path: Path) -> None:
    report = tmp_path / "r.xml"
    report.write_text(
        "<testsuites><testsuite><testcase/><testcase/><testcase><failure/></testcase><testcase><error/></testcase>"
        '<testcase><skipped message="needs root"/></testcase><testcase><skipped message="needs root"/></testcase>'
        "</testsuite></testsuites>"
    )
    assert levels.read_report(report) == (2, 2, Counter({"needs root": 2}))


def test_the_table_names_each_level_and_each_reason(levels: ModuleType) -> None:
    outcome = levels.Outcome("node", 1, 0, Counter({"needs root": 2}), 12.4)
    broken = levels.Outcome("chart", 0, 0, Counter(), 0.0, broken=True)
    assert levels.table([outcome, broken]).splitlines() == [
        "level     passed failed skipped  seconds",
        "node           1      0       2       12",
        "         skipped 2 × needs root",
        "chart          0      0       0        0  could not run",
    ]


def test_what_needs_torch_runs_last_and_nowhere_else(levels: ModuleType) -> None:
    assert [level.name for level in levels.LEVELS][-1] == "torch"
    assert {level.select for level in levels.LEVELS if level.folder == "tests/unit"} == {
        ("-m", "not torch"),
        ("-m", "torch"),
    }
