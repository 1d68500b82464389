"""The summary over the levels of tests counts what pytest reported and shows why tests were skipped."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from powertrain_cli.cluster import prepare
from powertrain_cli.cluster.errors import ClusterError, MissingToolError
from powertrain_cli.cluster.progress import Progress

TORCH = "mark." + "torch"
LOOKS_FOR_TORCH = 'find_spec("' + 'torch")'
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
    prepared = levels.Preparation({"control-plane": 384.2, "images": 0.1, "helm": 2.0}, {}, {"helm": "no space"})
    outcome = levels.Outcome("node", 1, 0, Counter({"needs root": 2}), 12.4)
    broken = levels.Outcome("chart", 0, 0, Counter(), 0.0, broken="it needs helm")
    assert levels.table(prepared, [outcome, broken]).splitlines() == [
        "level     passed failed skipped  seconds",
        "prepare                              386",
        "         control-plane 384 s",
        "         helm 2 s",
        "         failed: helm: no space",
        "node           1      0       2       12",
        "         skipped 2 × needs root",
        "chart          0      0       0        0  could not run: it needs helm",
    ]


def test_what_the_levels_need_is_made_once_and_not_for_a_level_that_lacks_something(
    levels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def part(name: str, error: Exception | None = None) -> Callable[[Progress], None]:
        def make(progress: Progress) -> None:
            made.append(name)
            if error:
                raise error

        return make

    parts = {
        "a": part("a"),
        "b": part("b", ClusterError("no space")),
        "c": part("c", MissingToolError("needs Go")),
        "d": part("d"),
        "e": part("e"),
    }
    monkeypatch.setattr(prepare, "PARTS", parts)
    done = levels.prepare_for([levels.Level("x", "", needs=("c", "a")), levels.Level("y", "", needs=("b", "a", "d"))])
    assert made == ["a", "b", "c"]
    assert (done.failed, done.absent) == ({"b": "no space"}, {"c": "needs Go"})


@pytest.fixture
def skipping(levels: ModuleType, tmp_path: Path) -> Any:
    """A level of one test that skips, and that needs a node."""
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_it(): pytest.skip('no control groups')\n")
    return levels.Level("node", str(tmp_path), needs=("node",), workers=1)


@pytest.mark.parametrize(("variable", "code"), [("false", 0), ("true", 1)])
def test_in_ci_a_level_whose_part_the_machine_can_not_have_has_failed(
    levels: ModuleType,
    skipping: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    variable: str,
    code: int,
) -> None:
    def absent(progress: Progress) -> None:
        raise MissingToolError("a real node needs root")

    monkeypatch.setattr(prepare, "PARTS", {"node": absent})
    monkeypatch.setattr(prepare, "DOWNLOADS", ())
    monkeypatch.setattr(levels, "LEVELS", (skipping,))
    monkeypatch.setenv("CI", variable)
    assert levels.main([]) == code
    said = capfd.readouterr().out
    assert "a real node needs root" in said
    assert ("could not run: it needs node" in said) == bool(code)


def test_in_ci_a_level_of_which_every_test_was_skipped_has_failed(
    levels: ModuleType, skipping: Any, tmp_path: Path
) -> None:
    assert levels.run(skipping, tmp_path, must_have=True).broken == "every test was skipped, and CI is set"


def test_every_need_of_a_level_is_a_part_that_can_be_prepared(levels: ModuleType) -> None:
    assert {part for level in levels.LEVELS for part in level.needs} == set(prepare.PARTS)


def test_every_download_is_a_part_that_can_be_prepared() -> None:
    assert set(prepare.DOWNLOADS) < set(prepare.PARTS)


def test_what_needs_torch_runs_last_and_nowhere_else(levels: ModuleType) -> None:
    *others, last = levels.LEVELS
    assert (last.name, last.folder, last.select) == ("torch", "tests", ("-m", "torch"))
    root = SCRIPT.parents[1]
    for level in others:
        texts = {file: file.read_text(encoding="utf-8") for file in (root / level.folder).rglob("*.py")}
        marked = [file for file, text in texts.items() if TORCH in text]
        looks = [file for file, text in texts.items() if LOOKS_FOR_TORCH in text and file not in marked]
        assert not looks, f"{looks[0]} looks for torch itself: mark it, or it runs in {level.name}"
        assert not marked or level.select == ("-m", "not torch"), f"{level.name} would run {marked[0]} too"


def test_a_level_has_no_more_processes_than_there_are_cores_and_keeps_a_file_in_one(
    levels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    files = ["--dist=loadfile", "--no-loadscope-reorder"]
    assert levels.Level("whole", "", workers=4).sharing == ["--numprocesses=2", *files]
    assert levels.Level("alone", "", workers=1).sharing == ["--numprocesses=1", *files]
    assert levels.Level("parts", "", by_file=False).sharing == ["--numprocesses=2", "--dist=worksteal"]


def test_a_level_runs_beside_another_one_and_is_shown_whole_after_it(
    levels: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Each waits for the other to have begun, so that one after the other would never end.
    meet = "import pathlib, time\ndef test_it():\n    pathlib.Path({own!r}).touch()\n"
    meet += "    while not pathlib.Path({other!r}).exists(): time.sleep(0.01)\n"
    for own, other in (("one", "two"), ("two", "one")):
        (tmp_path / own).mkdir()
        text = meet.format(own=str(tmp_path / f"{own}.begun"), other=str(tmp_path / f"{other}.begun"))
        (tmp_path / own / "test_it.py").write_text(text)
    pair = [
        levels.Level("one", str(tmp_path / "one"), workers=1),
        levels.Level("two", str(tmp_path / "two"), workers=1, beside="one"),
    ]
    outcomes = levels.run_all(pair, tmp_path)
    assert [(each.level, each.passed, each.broken) for each in outcomes] == [("one", 1, ""), ("two", 1, "")]
    told = capfd.readouterr().out
    assert told.index("== one:") < told.index("1 passed") < told.index("== two:")
