"""A session's history: from its start to its end, over restarts of the agent, with every decision as a mark."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from powertrain.api.v1alpha1 import SessionStatus
from powertrain.session_history import COMPACT_BYTES, HOST_BYTES, Happening, SessionHistory
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.history import FILE, HistoryRecorder
from powertrain_agent.simulate import ManualClock, SimulatedBoard
from powertrain_agent.simulate.simulation import Simulation
from powertrain_kube.log import Log

from .conftest import POD, UID, WORKLOAD, envelope

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Recorded:
    """A simulated job whose history is recorded; `restart` kills the agent, and only files are left."""

    def __init__(self, root: Path) -> None:
        self.clock, self.directory = ManualClock(), StateDir(root / "state")
        self.board = SimulatedBoard.create(root / "board", "orin-agx", now=self.clock, timeout_s=None)
        self.lines = io.StringIO()
        self.recorder = self._recorder()
        log = Log(io.StringIO())
        self.simulation = Simulation(self.board, self.clock, log, observe=self._observe)
        self.board.add_pod(POD)

    def _observe(self, *observation: Any) -> None:
        self.recorder.observe(*observation)

    def _recorder(self) -> HistoryRecorder:
        now = lambda: NOON + timedelta(seconds=self.clock())  # noqa: E731
        return HistoryRecorder(self.directory, Log(self.lines), self.clock, now=now)

    def restart(self) -> None:
        self.recorder = self._recorder()
        self.simulation.start_agent()
        self.simulation.envelope(envelope())

    def profile(self) -> None:
        self.simulation.envelope(envelope())
        self.simulation.run(2)
        self.simulation.train(WORKLOAD)
        assert self.simulation.run(300, lambda: bool(self.simulation.status.phase == "Running"))
        self.simulation.run(20)

    def end(self) -> None:
        self.board.remove_pod(POD)
        self.simulation.envelope(None, release=UID)
        assert self.simulation.run(60, lambda: bool(self.simulation.status.restored))

    def published(self) -> SessionHistory:
        assert self.recorder.published is not None
        assert self.recorder.published.session == UID
        return SessionHistory.from_text(self.recorder.published.data)


def test_every_trial_the_choice_and_a_new_limit_are_marks_and_the_end_is_published(tmp_path: Path) -> None:
    job = Recorded(tmp_path)
    job.profile()
    job.simulation.envelope(envelope(generation=2, limits={"powerWatts": 20}))
    job.simulation.run(30)
    status: SessionStatus = job.simulation.status
    job.end()
    history = job.recorder.history
    kinds = [mark.kind for mark in history.marks]
    assert status.result is not None
    tried = {sample.mode.human for sample in status.result.samples.samples()}
    mark_texts = " ".join(mark.text for mark in history.marks)
    assert {human for human in tried if human not in mark_texts} == set()
    assert kinds.count(Happening.TRIAL) >= len(tried)
    assert any("30 W → 20 W" in mark.text for mark in history.marks if mark.kind is Happening.LIMIT)
    assert {row.limit_w for row in history.rows} == {30.0, 20.0}
    assert any(row.step_s for row in history.rows)
    published = job.published()
    assert published.rows[-1].mode == history.rows[-1].mode
    assert max(row.power_max_w for row in published.rows) == max(float(f"{r.power_max_w:.5g}") for r in history.rows)
    assert job.recorder.published is not None
    assert len(job.recorder.published.data.encode()) <= COMPACT_BYTES


def test_a_history_survives_a_restart_of_the_agent_and_outlives_the_sessions_directory(tmp_path: Path) -> None:
    job = Recorded(tmp_path)
    job.profile()
    job.simulation.run(70)  # past the next save
    rows = len(job.recorder.history.rows)
    last_s = job.recorder.history.rows[-1].at_s
    job.restart()
    assert len(job.recorder.history.rows) >= rows - 61
    job.simulation.run(10)
    moments = [row.at_s for row in job.recorder.history.rows]
    assert moments == sorted(moments)
    assert moments[-1] >= last_s + 9
    job.end()
    assert not (job.simulation.state_dir / "sessions" / UID).exists()
    saved = json.loads(job.directory.read(FILE) or b"")
    assert saved["session"] == UID
    assert len(json.dumps(saved)) <= HOST_BYTES
    # An agent that starts after the end still tells of it.
    job.recorder = job._recorder()
    assert job.published().rows[-1].at_s >= last_s


def test_the_next_session_begins_with_an_empty_history(tmp_path: Path) -> None:
    job = Recorded(tmp_path)
    job.profile()
    job.end()
    job.board.add_pod(POD)
    job.simulation.envelope(envelope(uid="session-2"))
    job.simulation.run(35)
    assert job.recorder.published is not None
    assert job.recorder.published.session == "session-2"
    assert job.recorder.history.rows[-1].at_s < 40


def test_a_damaged_file_is_told_and_replaced(tmp_path: Path) -> None:
    job = Recorded(tmp_path)
    job.directory.replace(FILE, b'{"session": "x", "history": {"rows"')
    job.recorder = job._recorder()
    assert "can't be read" in job.lines.getvalue()
    job.profile()
    job.end()
    assert json.loads(job.directory.read(FILE) or b"")["session"] == UID


def test_a_full_disk_is_told_once_and_the_history_goes_on(tmp_path: Path) -> None:
    job = Recorded(tmp_path)
    job.directory.path.parent.mkdir(exist_ok=True)
    job.directory.path.write_text("a file where the directory should be")
    job.profile()
    job.recorder.close()
    job.recorder.close()
    assert job.lines.getvalue().count("could not be saved") == 1
    assert job.recorder.history.rows
