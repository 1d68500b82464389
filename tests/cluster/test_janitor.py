"""The janitor leaves nothing, whatever state it finds, and no cluster starts in a folder that one still cleans."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO

import pytest

from powertrain_devcluster import janitor, state
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.janitor import Chores
from powertrain_devcluster.node import cgroup as node_cgroup
from powertrain_devcluster.testing.waits import wait_for


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[list[Path]]:
    """A control group of the test's own in every hierarchy of this machine."""
    name = f"powertrain-test-{os.urandom(4).hex()}"
    if os.geteuid() != 0:
        pytest.skip("control groups need root")
    created_object = node_cgroup.create(name)
    yield created_object
    janitor.clean(Chores("", [], [str(group) for group in created_object]))


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "1000"])


def test_processes_that_a_killed_runtime_left_frozen_are_ended_too(groups: list[Path]) -> None:
    """runc stops a container's processes with the freezer while it signals them, and may be killed just then."""
    [freezer] = [group for group in groups if (group / "freezer.state").exists()] or [None]
    if freezer is None:
        pytest.skip("no freezer of control groups v1 here; in v2 a frozen process can be killed")
    inner = freezer / "kubepods" / "pod"
    inner.mkdir(parents=True)
    with sleeper() as process:
        (inner / "cgroup.procs").write_text(str(process.pid))
        (inner / "freezer.state").write_text("FROZEN")
        wait_for("the freezer", (inner / "freezer.state").read_text, lambda text: text.strip() == "FROZEN")
        threading.Thread(target=process.wait).start()
        janitor.clean(Chores("", [], [str(group) for group in groups]), deadline_s=10.0)
        assert [group for group in groups if group.exists()] == []


def test_two_cleaners_at_once_do_not_disturb_each_other(groups: list[Path]) -> None:
    for index in range(100):
        (groups[0] / f"pod{index}" / "container").mkdir(parents=True)
    problems: list[BaseException] = []

    def clean() -> None:
        try:
            janitor.clean(Chores("", [], [str(group) for group in groups]), deadline_s=10.0)
        except BaseException as error:
            problems.append(error)

    both = [threading.Thread(target=clean) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert problems == []
    assert [group for group in groups if group.exists()] == []


def cleaner(folder: Path) -> subprocess.Popen[bytes]:
    """A janitor that has not been told to begin; closing its standard input does."""
    chores = json.dumps(asdict(Chores("", [str(folder)])))
    return subprocess.Popen([sys.executable, "-m", janitor.__name__, chores], stdin=subprocess.PIPE)


def test_a_new_cluster_waits_for_the_janitor_of_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "clusters" / "c"
    (folder / "etcd").mkdir(parents=True)
    claimed = threading.Event()
    release = threading.Event()

    def claim() -> None:
        with state.claim(folder):
            claimed.set()
            release.wait(30)

    with cleaner(folder) as old:
        wait_for("the janitor", lambda: janitor.at_work(folder))
        thread = threading.Thread(target=claim)
        thread.start()
        assert not claimed.wait(0.5)
        assert old.stdin is not None
        old.stdin.close()
        assert claimed.wait(10)
        assert old.wait(10) == 0
    assert [path.name for path in folder.iterdir()] == ["lock"]
    release.set()
    thread.join()
    assert not folder.exists()


def test_what_a_dead_cluster_left_is_cleared_at_once_when_no_janitor_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "clusters" / "c"
    (folder / "etcd").mkdir(parents=True)
    (folder / "lock").write_text("")
    with state.claim(folder):
        assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_folder_is_claimed_once(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with state.claim(folder):
        (folder / "data").write_text("")
        with pytest.raises(ClusterError, match="'c' is being started or is up already"), state.claim(folder):
            pass
        assert (folder / "data").exists()


def test_who_only_asks_does_not_keep_a_folder_from_being_claimed(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    with (folder / "lock").open("w") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        threading.Timer(0.2, fcntl.flock, (asking, fcntl.LOCK_UN)).start()
        with state.claim(folder):
            assert state.is_held(folder)


def test_an_interrupt_while_a_folder_is_claimed_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, calls = tmp_path / "c", itertools.count()
    flock = fcntl.flock

    def interrupted(file: IO[str], how: int) -> None:
        """A signal as soon as the lock is there."""
        flock(file, how)
        if next(calls) == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(fcntl, "flock", interrupted)
    with pytest.raises(KeyboardInterrupt), state.claim(folder):
        pass
    assert not folder.exists()
