"""What the cluster levels need is made before them: whole or not at all, by one builder at a time."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from powertrain_devcluster.builds import gobuild, prepare, progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import ClusterError, DiskFullError, MissingToolError, NotPreparedError
from powertrain_devcluster.testing.waits import wait_for

ENVIRONMENT_CODE = 3
BAD_INPUT_CODE = 2
THING = gobuild.GoBuild("thing", ".", "thing", "", directory=Path("/"))
BUILD = (
    "import sys; from pathlib import Path; from powertrain_devcluster.builds import gobuild, progress\n"
    "spec = gobuild.GoBuild('thing', '.', 'thing', '', directory=Path('/'))\n"
    "gobuild.build(spec, Path(sys.argv[1]), progress.Lines())\n"
)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "thing"


def go_that(does: str, tmp_path: Path) -> dict[str, str]:
    """An environment whose Go tool is new enough, and this script."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir(exist_ok=True)
    go.write_text(f"#!/bin/sh\n{NEW_ENOUGH}\n{does}\n")
    go.chmod(0o755)
    return {**os.environ, "PATH": f"{go.parent}:{os.environ['PATH']}"}


NEW_ENOUGH = 'if [ "$1" = version ]; then echo go version go1.26.0 linux/amd64; exit; fi'
WRITES_WHAT_O_SAYS = 'while [ "$1" != -o ]; do shift; done\necho built > "$2"'


def builder(env: dict[str, str], target: Path) -> subprocess.Popen[str]:
    argv = ["env", "--default-signal=INT", sys.executable, "-c", BUILD, str(target)]
    return subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_was_cut_off_leaves_no_entry_and_the_next_one_clears_its_rest(
    number: signal.Signals, tmp_path: Path, target: Path
) -> None:
    env = go_that('while [ "$1" != -o ]; do shift; done\necho half > "$2"\nexec sleep 1000', tmp_path)
    with builder(env, target) as process:
        wait_for("half a program", lambda: list(target.parent.glob(".thing.*/stage/thing")))
        process.send_signal(number)
        process.wait(timeout=30)
    assert not target.exists()
    assert gobuild.build(THING, target, progress.Silent(), go_that(WRITES_WHAT_O_SAYS, tmp_path)) == target
    assert (target / "thing").read_text() == "built\n"
    assert [path.name for path in target.parent.iterdir() if path.is_dir()] == ["thing"]


@pytest.mark.parametrize(
    "message", ["go version go1.19.8 linux/amd64", "go: download go1.26.0: no route to host", "go version gone wrong"]
)
def test_a_go_that_is_too_old_is_named_with_what_is_needed(message: str, tmp_path: Path, target: Path) -> None:
    env = go_that("", tmp_path)
    (tmp_path / "bin" / "go").write_text(f"#!/bin/sh\necho '{message}'\n")
    with pytest.raises(MissingToolError, match=r"install Go 1\.26 or newer; .*bin/go says '" + message):
        gobuild.build(THING, target, progress.Silent(), env)
    assert not target.exists()


def test_an_entry_without_its_program_is_made_again(tmp_path: Path, target: Path) -> None:
    target.mkdir(parents=True)
    (target / "other").write_text("")
    gobuild.build(THING, target, progress.Silent(), go_that(WRITES_WHAT_O_SAYS, tmp_path))
    assert [path.name for path in target.iterdir()] == ["thing"]


def test_a_second_builder_says_that_it_waits_and_builds_nothing(tmp_path: Path, target: Path) -> None:
    gate = tmp_path / "gate"
    env = go_that(
        f"echo x >> {tmp_path}/runs\necho go/on >&2\nuntil [ -e {gate} ]; do sleep 0.02; done\n{WRITES_WHAT_O_SAYS}",
        tmp_path,
    )
    with builder(env, target) as first, builder(env, target) as second:
        # Whichever came second says so; the other one builds.
        wait_for("one to build", (tmp_path / "runs").read_text)
        waiting = wait_for("one to hold the lock", lambda: _waits_for_lock(first.pid) or _waits_for_lock(second.pid))
        gate.touch()
        words_of = {first.pid: first.communicate(timeout=30)[1], second.pid: second.communicate(timeout=30)[1]}
        assert (first.returncode, second.returncode) == (0, 0)
    assert "waiting for another process that builds thing" in words_of[waiting]
    assert (tmp_path / "runs").read_text() == "x\n"


def _waits_for_lock(pid: int) -> int:
    return pid if f" FLOCK  ADVISORY  WRITE {pid} " in _waiters() else 0


def _waiters() -> str:
    lines = Path("/proc/locks").read_text().splitlines()
    return "\n".join(line for line in lines if " -> " in line)


def test_a_failed_step_leaves_no_entry(target: Path) -> None:
    def half() -> None:
        with staged(target, "thing", progress.Silent()) as stage:
            assert stage is not None
            (stage / "half").write_text("")
            raise ClusterError("no more")

    with pytest.raises(ClusterError, match="no more"):
        half()
    assert not [path for path in target.parent.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DiskFullError, "no space left on the disk of /"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), ClusterError, "/x: Permission denied"),
    ],
)
def test_what_the_system_refuses_is_one_clear_line(
    refused: OSError, error: type[ClusterError], message: str, target: Path
) -> None:
    with pytest.raises(error, match=f"^making thing: {message}"), staged(target, "thing", progress.Silent()):
        raise refused
    assert not [path for path in target.parent.iterdir() if path.is_dir()]


def test_a_cache_that_cannot_be_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "powertrain").write_text("a file")
    argv = [sys.executable, "-m", "powertrain_devcluster.builds.prepare", "prometheus"]
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    result = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    [line] = result.stderr.splitlines()
    assert (result.returncode, result.stdout) == (ENVIRONMENT_CODE, "")
    assert line == f"error: prometheus: making prometheus: {tmp_path}/powertrain: File exists"


def test_parts_are_made_in_their_order_with_a_line_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(progress: progress.Progress) -> None:
        raise MissingToolError("needs Go")

    monkeypatch.setattr(prepare, "PARTS", {"one": lambda progress: None, "two": missing})
    assert prepare.main([]) == 0
    assert capsys.readouterr().out.splitlines() == ["one: ready, 0 s", "two: not here: needs Go"]


def test_a_part_that_fails_ends_it_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(progress: progress.Progress) -> None:
        raise ClusterError("building thing failed: no such thing")

    monkeypatch.setattr(prepare, "PARTS", {"one": fails, "two": fails})
    assert prepare.main([]) == ENVIRONMENT_CODE
    assert capsys.readouterr() == ("", "error: one: building thing failed: no such thing\n")


def test_parts_are_begun_beside_something_else_and_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = go_that(f"echo $$ > {tmp_path}/pid\nexec sleep 1000", tmp_path)
    monkeypatch.setenv("PATH", env["PATH"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with prepare.beside(["kueue"]):
        pid = int(wait_for("the part to be begun", (tmp_path / "pid").read_text, str.strip))
    wait_for("its end", lambda: not Path(f"/proc/{pid}/cmdline").exists())
    assert not [path for path in (tmp_path / "cache/powertrain/kueue").iterdir() if not path.name.startswith(".")]


def test_an_unknown_part_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare.main(["nobody"]) == BAD_INPUT_CODE
    assert "part 'nobody' is not one of: control-plane, helm, node, images" in capsys.readouterr().err


def test_a_test_never_builds(tmp_path: Path, target: Path) -> None:
    """Building takes longer than a test may: it fails at once, and says what to run."""
    env = go_that(f"touch {tmp_path}/started", tmp_path)
    with pytest.raises(NotPreparedError, match=r"inside a test: run `make prepare` first"):
        gobuild.build(THING, target, prepare.Ready(), env)
    assert not (tmp_path / "started").exists()
    assert not target.exists()


def test_a_long_step_says_now_and_then_how_far_it_is() -> None:
    stream, now_s = io.StringIO(), [0.0]
    lines = progress.Lines(stream, lambda: now_s[0])
    for second in range(50):
        now_s[0] = float(second)
        lines.waiting(f"Go to build thing ({second} packages)")
    lines.waiting("etcd")
    assert stream.getvalue().splitlines() == [
        "waiting for Go to build thing (0 packages)",
        "waiting for Go to build thing (20 packages)",
        "waiting for Go to build thing (40 packages)",
        "waiting for etcd",
    ]


def test_whoever_finds_a_whole_entry_waits_for_nobody(tmp_path: Path) -> None:
    target = tmp_path / "entry"
    target.mkdir()
    with (tmp_path / ".entry.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with staged(target, "an entry", prepare.Ready()) as stage:
            assert stage is None
