"""The summary over the levels of tests counts what pytest reported and shows why tests were skipped."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from powertrain_devcluster.builds import prepare
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.errors import ClusterError, MissingToolError
from powertrain_devcluster.paths import cache_dir
from powertrain_devcluster.testing.scripts import load_script
from powertrain_devcluster.testing.waits import wait_for

TORCH = "mark." + "torch"
LOOKS_FOR_TORCH = 'find_spec("' + 'torch")'
SCRIPT = Path(__file__).resolve().parents[2] / "hack" / "test_levels.py"


@pytest.fixture(scope="module")
def levels() -> ModuleType:
    return load_script(SCRIPT)


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
    broken = levels.Outcome("chart", 0, 0, Counter(), 0.0, problem="it needs helm")
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
    assert levels.begin(skipping, tmp_path).outcome(must_have=True).problem == "every test was skipped, and CI is set"


def test_every_need_of_a_level_is_a_part_that_can_be_prepared(levels: ModuleType) -> None:
    assert {part for level in levels.LEVELS for part in (*level.needs, *level.later)} == set(prepare.PARTS)


def test_a_part_that_is_made_behind_other_levels_says_when_it_is_ready(levels: ModuleType) -> None:
    assert {part for level in levels.LEVELS for part in level.later} == set(prepare.LONG)


@pytest.mark.parametrize(
    ("cached", "named", "must_have", "runs"),
    [(True, (), False, True), (False, (), False, False), (False, ("far",), False, True), (False, (), True, True)],
    ids=["cached", "not-cached", "named", "in-ci"],
)
def test_a_level_that_would_build_for_very_long_runs_when_it_need_not_or_was_asked_for(
    levels: ModuleType, monkeypatch: pytest.MonkeyPatch, cached: bool, named: tuple[str], must_have: bool, runs: bool
) -> None:
    monkeypatch.setattr(levels, "LEVELS", (levels.Level("far", "tests", later=("ship",)),))
    monkeypatch.setattr(prepare, "LONG", {"ship": lambda: cached})
    chosen, hints = levels.choose(named, must_have)
    assert [level.name for level in chosen] == (["far"] if runs else [])
    assert [hint.split(";")[0] for hint in hints] == ([] if runs else ["far      not run: ship is not in the cache"])
    assert runs or "`make test-far` builds it once" in hints[0]


# The one in front goes on until the part is being made, and the other one looks whether it is there.
BEHIND = """
import pathlib, time
folder = pathlib.Path({folder!r})
def test_it():
    while "{name}" == "front" and not (folder / "begun").exists(): time.sleep(0.01)
    assert "{name}" == "front" or (folder / "made").exists()
"""


def test_a_long_part_is_made_behind_the_levels_before_the_one_that_needs_it(
    levels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for name in ("front", "far"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test_it.py").write_text(BEHIND.format(folder=str(tmp_path), name=name))
        later = {"later": ("ship",), "last": True} if name == "far" else {}
        made.append(levels.Level(name, str(tmp_path / name), workers=1, **later))

    @contextlib.contextmanager
    def beside(parts: list[str], niceness: int) -> Iterator[None]:
        assert (parts, niceness) == (["ship"], levels.NICENESS)
        (tmp_path / "begun").touch()
        yield

    monkeypatch.setattr(prepare, "beside", beside)
    monkeypatch.setattr(prepare, "LONG", {"ship": lambda: False})
    monkeypatch.setattr(prepare, "PARTS", {"ship": lambda progress: (tmp_path / "made").touch()})
    outcomes = levels.run_all(made, tmp_path)
    assert [(each.level, each.passed, each.problem) for each in outcomes] == [("front", 1, ""), ("far", 1, "")]


def test_a_level_whose_long_part_failed_could_not_run(
    levels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(progress: Progress) -> None:
        raise ClusterError("building ship failed: no dock")

    monkeypatch.setattr(prepare, "LONG", {"ship": lambda: True})
    monkeypatch.setattr(prepare, "PARTS", {"ship": fails})
    [outcome] = levels.run_all([levels.Level("far", str(tmp_path), later=("ship",))], tmp_path)
    assert outcome.problem == "it needs ship"


def test_every_download_is_a_part_that_can_be_prepared() -> None:
    assert set(prepare.DOWNLOADS) < set(prepare.PARTS)


def test_what_needs_torch_runs_last_and_nowhere_else(levels: ModuleType) -> None:
    root, marked = SCRIPT.parents[1], set()
    for level in levels.LEVELS:
        texts = {file: file.read_text(encoding="utf-8") for file in (root / level.folder).rglob("*.py")}
        needs = {file for file, text in texts.items() if TORCH in text}
        looks = [file for file, text in texts.items() if LOOKS_FOR_TORCH in text and file not in needs]
        assert not looks, f"{looks[0]} looks for torch itself: mark it, or it runs in {level.name}"
        wanted = ("-m", "torch" if level.last else "not torch")
        assert level.select != ("-m", "torch") or {root / each for each in level.places} == needs
        assert not needs or level.select == wanted, f"{level.name} would run {min(needs)} too"
        marked |= needs if level.last else set()
    everywhere = {file for file in (root / "tests").rglob("*.py") if TORCH in file.read_text(encoding="utf-8")}
    assert marked == everywhere, "what needs torch is in a level of its own"


def test_a_level_has_no_more_processes_than_there_are_cores_and_keeps_a_file_in_one(
    levels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    files = ["--dist=loadfile", "--no-loadscope-reorder"]
    assert levels.Level("whole", "", workers=4).sharing == ["--numprocesses=2", *files]
    assert levels.Level("alone", "", workers=1).sharing == ["--numprocesses=1", *files]
    assert levels.Level("parts", "", by_file=False).sharing == ["--numprocesses=2", "--dist=worksteal"]


# Each notes its priority, and its end. The first three wait for each other: one by one they would never end. The one
# behind goes on until there is nothing left to give way to: the last one begins meanwhile.
TOGETHER = """
import os, pathlib, time
folder = pathlib.Path({folder!r})
def all_have(what):
    return all((folder / f"{{name}}.{{what}}").exists() for name in ("behind", "front", "beside"))
def gives_way():
    group = pathlib.Path("/proc/self/autogroup")  # only where Linux has been built with it
    return group.exists() and not group.read_text().endswith("nice 0\\n")
def test_it():
    (folder / "{name}.begun").write_text(str(os.nice(0)))
    have_ended = [(folder / f"{{name}}.ended").exists() for name in ("front", "beside", "next", "behind")]
    assert have_ended == [True, True, True, False] or "{name}" != "last"
    assert (folder / "beside.ended").exists() or "{name}" != "next"
    while not all_have("begun"): time.sleep(0.01)
    while "{name}" == "behind" and (gives_way() or not (folder / "last.ended").exists()): time.sleep(0.01)
    (folder / "{name}.ended").touch()
"""


def test_levels_run_beside_in_turn_and_behind_all_others_and_are_shown_whole(
    levels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Low enough to be seen; the usual one would let this test wait for the machine's other work.
    monkeypatch.setattr(levels, "NICENESS", 1)
    side = {"beside": "front"}
    kinds = {"behind": {"fills": True}, "front": {}, "beside": side, "next": side, "last": {"last": True}}
    made = []
    for name, kind in kinds.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "test_it.py").write_text(TOGETHER.format(folder=str(tmp_path), name=name))
        made.append(levels.Level(name, str(tmp_path / name), workers=1, **kind))
    outcomes = levels.run_all(made, tmp_path)
    assert [(each.level, each.passed, each.problem) for each in outcomes] == [(name, 1, "") for name in kinds]
    told = capfd.readouterr().out
    order = [told.index(f"== {name}: {tmp_path}") for name in ("front", "beside", "next", "last", "behind")]
    assert order == sorted(order)
    assert [told.count("1 passed", begin, end) for begin, end in pairwise([*order, len(told)])] == [1] * 5
    usual, low = str(os.nice(0)), str(os.nice(0) + levels.NICENESS)
    priorities = {name: (tmp_path / f"{name}.begun").read_text() for name in kinds}
    assert priorities == {**dict.fromkeys(kinds, usual), "behind": low}


def test_a_level_that_fills_is_in_front_where_there_is_nothing_to_fill(
    levels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[str] = []
    monkeypatch.setattr(
        levels.Crew, "run", lambda crew, level: crew.outcomes.setdefault(level.name, run.append(level.name))
    )
    levels.run_all([levels.Level("unit", "", fills=True), levels.Level("torch", "", last=True)], tmp_path)
    assert run == ["unit", "torch"]


def test_an_interrupt_ends_what_runs_behind(
    levels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "NICENESS", 1)
    (tmp_path / "endless").mkdir()
    begun = tmp_path / "begun"
    text = f"import pathlib, time\ndef test_it():\n    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(1000)\n"
    (tmp_path / "endless/test_it.py").write_text(text)

    def interrupted() -> None:
        with levels.Crew(tmp_path, must_have=False) as crew:
            crew.start([levels.Level("endless", str(tmp_path / "endless"), workers=1, fills=True)])
            wait_for("the test to begin", begun.exists)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_whoever_wants_no_bytecode_beside_the_sources_gets_it_in_the_cache(levels: ModuleType) -> None:
    usual = {"HOME": "/home/ada"}
    assert levels.environment(usual) == usual
    kept = levels.environment({**usual, "PYTHONDONTWRITEBYTECODE": "1"})
    assert kept == {**usual, "PYTHONPYCACHEPREFIX": str(cache_dir() / "bytecode")}
    chosen = {**usual, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/tmp/ada"}
    assert levels.environment(chosen)["PYTHONPYCACHEPREFIX"] == "/tmp/ada"


def test_bytecode_of_temporary_files_does_not_pile_up(levels: ModuleType, tmp_path: Path) -> None:
    bytecode, folder, sources = tmp_path / "bytecode", tmp_path / "t", tmp_path / "src"
    kept, gone = (bytecode / str(each).lstrip("/") / "module.pyc" for each in (sources, folder))
    for path in (kept, gone):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
    levels.forget_temporary(bytecode, folder)
    assert (kept.is_file(), gone.exists()) == (True, False)
    levels.forget_temporary(tmp_path / "none", folder)
