"""Runs levels of tests (all that are there, or the named ones), and ends with one table of what came of them.

Usage: python hack/test_levels.py [LEVEL...]

What takes minutes to build or download is made first, outside of any test, and has a line of its own in the table. Each
level is a pytest process of its own; what needs torch, and k3s, run last. A part that takes very long (k3s) is made
behind the other levels; unless it is in the cache, CI is set or its level was named, that level does not run, and the
table says how to get it. Unit tests compute and never wait: they run behind all others, the last ones too, at low
priority, and fill the time that those wait. The output of a level that runs behind or beside another one is shown when
both have ended, all else is passed through. The exit code is not 0 when any test failed or a level could not run. A
machine that can't have what a level needs skips its tests, unless the environment variable CI is set: there a level
that does not run has failed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from powertrain_devcluster.builds import prepare
from powertrain_devcluster.builds.progress import for_stream
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.paths import cache_dir
from powertrain_devcluster.process import give_way, start

ROOT = Path(__file__).resolve().parents[1]
NICENESS, PATIENCE_S = 19, 1800
NO_TESTS_COLLECTED = 5
UNCOMPILED, BYTECODE = "PYTHONDONTWRITEBYTECODE", "bytecode"
INTERRUPTED = 130
WITH_TORCH = ("-m", "torch")


@dataclass(frozen=True)
class Level:
    """One folder of tests, which of them, and what must be made before."""

    name: str
    folder: str
    select: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    # How many pytest processes may share the work, where there are cores for them; each has a cluster of its own.
    workers: int = 2
    # A file's tests share boards and servers that are dear to start: they stay in one process (tests/conftest.py).
    by_file: bool = True
    # The level that this one runs beside, as both wait more than they compute; those beside the same take turns.
    beside: str = ""
    # Runs behind all others and takes what processor time they leave.
    fills: bool = False
    # Begins when all others that are not have ended; those that fill may go on behind it.
    last: bool = False
    # What takes so long to make that it is made behind the levels before this one.
    later: tuple[str, ...] = ()

    @property
    def places(self) -> list[str]:
        """Return what pytest looks through: with torch only the files that have its mark."""
        if self.select != WITH_TORCH:
            return [self.folder]
        files = sorted((ROOT / self.folder).rglob("test_*.py"))
        marked = [str(file.relative_to(ROOT)) for file in files if "mark.torch" in file.read_text(encoding="utf-8")]
        return marked or [self.folder]

    @property
    def sharing(self) -> list[str]:
        """Return how pytest is to share the work on this machine."""
        processes = f"--numprocesses={min(self.workers, os.cpu_count() or 1)}"
        return [processes, *(["--dist=loadfile", "--no-loadscope-reorder"] if self.by_file else ["--dist=worksteal"])]


LEVELS = (
    Level("unit", "tests/unit", ("-m", "not torch"), workers=4, by_file=False, fills=True),
    Level("cluster", "tests/cluster", ("-m", "not torch"), needs=("control-plane", "kueue")),
    # Whether a node leaves the machine as it was can't be judged while another one lives on it.
    Level(
        "node",
        "tests/node",
        needs=("control-plane", "node", "images", "helm", "prometheus"),
        workers=1,
        beside="cluster",
    ),
    Level("chart", "tests/chart", needs=("control-plane", "helm", "prometheus", "arm64", "registry"), beside="cluster"),
    Level("browser", "tests/browser", needs=("browser",), workers=1, beside="cluster"),
    Level("kernel", "tests/kernel", needs=("kernel",), beside="cluster"),
    Level("torch", "tests/cluster", WITH_TORCH, needs=("control-plane",), last=True),
    Level("networks", "tests/unit", WITH_TORCH, fills=True, last=True),
    Level("k3s", "tests/k3s", needs=("node", "images", "helm"), later=("k3s",), last=True),
)


@dataclass(frozen=True)
class Outcome:
    """What one level came to."""

    level: str
    passed: int
    failed: int
    skipped: Counter[str]
    seconds: float
    # Why it could not run, if it could not.
    problem: str = ""


@dataclass(frozen=True)
class Preparation:
    """What was made before the levels: seconds by part, why the machine can't have some, and what failed."""

    seconds: dict[str, float]
    absent: dict[str, str]
    failed: dict[str, str]


def prepare_for(levels: Sequence[Level], must_have: bool = False) -> Preparation:
    """Make what the levels need, each part once; a level that lacks one part already needs no other.

    Where the machine must have every part, one that it can't have has failed.
    """
    result = Preparation({}, {}, {})
    for part in prepare.PARTS:
        lacking = {*result.absent, *result.failed}
        if any(part in level.needs and lacking.isdisjoint(level.needs) for level in levels):
            make(part, result, must_have)
    return result


def make(part: str, result: Preparation, must_have: bool) -> None:
    """Make one part, or wait for whoever makes it, and note what came of it."""
    print(f"== prepare: {part}", flush=True)
    began_s = time.monotonic()
    try:
        with for_stream() as progress:
            if reason := prepare.prepare(part, progress):
                (result.failed if must_have else result.absent)[part] = reason
    except ClusterError as error:
        result.failed[part] = str(error)
    result.seconds[part] = time.monotonic() - began_s


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


@dataclass(frozen=True)
class Running:
    """A level's pytest process."""

    level: Level
    report: Path
    process: subprocess.Popen[bytes]
    began_s: float
    # Whether it is in a session of its own, which Ctrl-C on the terminal does not reach.
    apart: bool

    def outcome(self, must_have: bool = False) -> Outcome:
        """Wait for its end; where it must run, skipping all is a failure."""
        # Ctrl-C reaches pytest as well, which then ends what its fixtures started; `with` waits for that.
        with self.process:
            code = self.process.wait()
        seconds = time.monotonic() - self.began_s
        passed, failed, skipped = read_report(self.report) if self.report.is_file() else (0, 0, Counter[str]())
        problem = f"pytest ended with code {code}" if code not in (0, NO_TESTS_COLLECTED) and failed == 0 else ""
        if must_have and skipped and not passed + failed:
            problem = problem or "every test was skipped, and CI is set"
        return Outcome(self.level.name, passed, failed, skipped, seconds, problem)

    def interrupt(self) -> None:
        """Pass Ctrl-C on to one that it does not reach."""
        if self.apart and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGINT)

    def share(self, niceness: int) -> None:
        """Say how much it gives way to the others."""
        if self.apart:
            give_way(self.process.pid, niceness)


def begin(level: Level, reports: Path, output: IO[str] | None = None, gives_way: bool = False) -> Running:
    """Start a level's tests, with their output on the terminal or in a file."""
    print(f"\n== {level.name}: {level.folder} {' '.join(level.select)}".rstrip(), file=output, flush=True)
    report = reports / f"{level.name}.xml"
    command = [sys.executable, "-m", "pytest", *level.places, *level.select, *level.sharing, f"--junitxml={report}"]
    began_s = time.monotonic()
    options: dict[str, Any] = {"cwd": ROOT, "stdout": output, "stderr": output, "env": environment(os.environ)}
    if not gives_way:
        return Running(level, report, subprocess.Popen(command, **options), began_s, apart=False)
    # What gives way may stand still for minutes: only a test that hangs takes longer than this.
    command.append(f"--timeout={PATIENCE_S}")
    # A shell starts what runs in its background deaf to interrupts, and so would be all that this starts.
    process = start(["env", "--default-signal=INT", "nice", "-n", str(NICENESS), *command], **options)
    running = Running(level, report, process, began_s, apart=True)
    running.share(NICENESS)
    return running


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a level: whoever wants no bytecode beside the sources gets it in the cache.

    The levels start some hundred Python processes, and each would compile the whole project anew.
    """
    if not ours.get(UNCOMPILED):
        return dict(ours)
    theirs = {name: value for name, value in ours.items() if name != UNCOMPILED}
    return {"PYTHONPYCACHEPREFIX": str(cache_dir() / BYTECODE), **theirs}


def forget_temporary(bytecode: Path, folder: Path) -> None:
    """Remove the bytecode of what earlier runs had in a folder for temporary files: nobody comes back to it."""
    shutil.rmtree(bytecode / folder.resolve().relative_to("/"), ignore_errors=True)


def could_not_run(level: Level, parts: Sequence[str]) -> Outcome:
    """Return what a level comes to that lacks parts."""
    return Outcome(level.name, 0, 0, Counter(), 0.0, problem=f"it needs {', '.join(parts)}")


class Crew:
    """Runs levels in front, with their output on the terminal, and behind, shown when they have ended."""

    def __init__(self, reports: Path, must_have: bool, preparation: Preparation | None = None) -> None:
        self._reports, self._must_have = reports, must_have
        self._preparation = preparation or Preparation({}, {}, {})
        self._pool = ThreadPoolExecutor()
        self._behind: dict[tuple[Level, ...], Future[None]] = {}
        self._running: list[Running] = []
        self._ends = False
        self.outcomes: dict[str, Outcome] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: object, error: object, at: object) -> None:
        self._ends = True
        for running in self._running:
            running.interrupt()
        self._pool.shutdown()

    def run(self, level: Level) -> None:
        """Run a level in front, when what was made behind the others is there."""
        for part in level.later:
            make(part, self._preparation, self._must_have)
        lacking = [part for part in level.later if part in self._preparation.failed]
        if lacking:
            self.outcomes[level.name] = could_not_run(level, lacking)
        else:
            self.outcomes[level.name] = begin(level, self._reports).outcome(self._must_have)

    def start(self, levels: Sequence[Level]) -> None:
        """Start levels behind, one after the other."""
        if levels:
            names = ", then ".join(level.name for level in levels)
            print(f"\n== {names}: meanwhile, to be shown at the end", flush=True)
            self._behind[tuple(levels)] = self._pool.submit(self._one_by_one, levels)

    def wait(self, fillers: bool = True) -> None:
        """Wait for those behind, and show what they said; for those that fill only if asked, with nothing to fill."""
        for running in self._running if fillers else ():
            running.share(0)
        for levels in [each for each in self._behind if fillers or not each[0].fills]:
            self._behind.pop(levels).result()
            for level in levels:
                print(self._file(level).read_text(encoding="utf-8"), flush=True)

    def _file(self, level: Level) -> Path:
        return self._reports / f"{level.name}.txt"

    def _one_by_one(self, levels: Sequence[Level]) -> None:
        for level in levels:
            if self._ends:
                return
            with self._file(level).open("w", encoding="utf-8") as output:
                running = begin(level, self._reports, output, gives_way=level.fills)
                self._running.append(running)
                if self._ends:
                    running.interrupt()
                self.outcomes[level.name] = running.outcome(self._must_have)


def run_all(
    levels: Sequence[Level], reports: Path, must_have: bool = False, preparation: Preparation | None = None
) -> list[Outcome]:
    """Run the levels, those that are to be last when all others have ended."""
    # With nothing to build behind, whoever waits had better see how far it is.
    later = [part for level in levels for part in level.later] if len(levels) > 1 else []
    long = [part for part in later if not prepare.LONG[part]()]
    with (
        prepare.beside(long, NICENESS) if long else contextlib.nullcontext(),
        Crew(reports, must_have, preparation) as crew,
    ):
        for last in (False, True):
            _run_group(crew, [level for level in levels if level.last == last])
        crew.wait()
    return [crew.outcomes[level.name] for level in levels]


def _run_group(crew: Crew, levels: Sequence[Level]) -> None:
    """Run levels one after the other, with those that run beside one of them, and those that fill behind all."""
    names = {level.name for level in levels}
    has_room = any(not level.fills for level in levels)
    fillers = [level for level in levels if level.fills and has_room]
    crew.start(fillers)
    for level in levels:
        if level not in fillers and level.beside not in names:
            crew.start([other for other in levels if other.beside == level.name])
            crew.run(level)
            crew.wait(fillers=False)


def _preparation_lines(preparation: Preparation) -> list[str]:
    lines = [f"{'prepare':<31}{sum(preparation.seconds.values()):>9.0f}"]
    lines += [f"{'':<9}{part} {seconds:.0f} s" for part, seconds in preparation.seconds.items() if seconds >= 1]
    lines += [f"{'':<9}not here: {reason}" for reason in dict.fromkeys(preparation.absent.values())]
    return [*lines, *(f"{'':<9}failed: {part}: {reason}" for part, reason in preparation.failed.items())]


def table(preparation: Preparation, outcomes: Sequence[Outcome]) -> str:
    """What was prepared, then the levels, one line each, and a line for each reason to skip."""
    lines = [f"{'level':<9}{'passed':>7}{'failed':>7}{'skipped':>8}{'seconds':>9}"]
    lines += _preparation_lines(preparation)
    for each in outcomes:
        count = sum(each.skipped.values())
        note = f"  could not run: {each.problem}" if each.problem else ""
        lines.append(f"{each.level:<9}{each.passed:>7}{each.failed:>7}{count:>8}{each.seconds:>9.0f}{note}")
        lines += [f"{'':<9}skipped {number} × {reason}" for reason, number in each.skipped.most_common()]
    return "\n".join(lines)


def choose(names: Sequence[str], must_have: bool) -> tuple[list[Level], list[str]]:
    """Return the levels to run, and a line for each that would first have to build for very long, unasked."""
    levels = [level for level in LEVELS if (ROOT / level.folder).is_dir() and (not names or level.name in names)]
    if names or must_have:
        return levels, []
    missing = {level: [part for part in level.later if not prepare.LONG[part]()] for level in levels}
    hints = [
        f"{level.name:<9}not run: {', '.join(parts)} is not in the cache; `make test-{level.name}` builds it once "
        f"and runs the level, `CI=true make test` does so behind the other levels"
        for level, parts in missing.items()
        if parts
    ]
    return [level for level in levels if not missing[level]], hints


def main(names: Sequence[str]) -> int:
    """Run the levels; 1 when anything failed."""
    if unknown := set(names) - {level.name for level in LEVELS}:
        sys.exit(f"level {', '.join(sorted(unknown))} is not one of: {', '.join(level.name for level in LEVELS)}")
    forget_temporary(cache_dir() / BYTECODE, Path(tempfile.gettempdir()))
    must_have = os.environ.get("CI", "") not in ("", "0", "false")
    levels, hints = choose(names, must_have)
    downloads = [part for part in prepare.DOWNLOADS if any(part in level.needs for level in levels)]
    with prepare.beside(downloads) if downloads else contextlib.nullcontext():
        preparation = prepare_for(levels, must_have)
    with tempfile.TemporaryDirectory(prefix="powertrain-reports-") as folder:
        lacking = {level: [part for part in level.needs if part in preparation.failed] for level in levels}
        able = [level for level in levels if not lacking[level]]
        outcomes = [could_not_run(level, parts) for level, parts in lacking.items() if parts]
        outcomes += run_all(able, Path(folder), must_have, preparation)
    passed = sum(each.passed for each in outcomes)
    failed = sum(each.failed for each in outcomes)
    skipped = sum(sum(each.skipped.values()) for each in outcomes)
    print("\n".join(["", table(preparation, outcomes), *hints]))
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or any(each.problem for each in outcomes) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
