"""The loop: one thread of truth. It takes events one by one, serves one session at a time, and holds on doubt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from powertrain.api.v1alpha1 import PROTOCOL, Phase, Reason, SessionSpec
from powertrain_agent.control.hold import Action
from powertrain_agent.control.snapshot import SnapshotError
from powertrain_agent.governor.course import Course
from powertrain_agent.governor.events import (
    ApiAway,
    ApiBack,
    EnvelopeSeen,
    Event,
    Planned,
    PowerNodeGone,
    SensorFailed,
    Tick,
)
from powertrain_agent.governor.helm import Settings, Tools
from powertrain_agent.governor.ports import BoardPort, Metrics, Planner, Report
from powertrain_agent.governor.session_file import SessionFiles, SessionState
from powertrain_agent.governor.status import status_of
from powertrain_agent.keeper import Keeper
from powertrain_agent.log import Log
from powertrain_agent.steps import Kind, SessionDir, StepsSeen, TrainingSaid
from powertrain_agent.telemetry import Reading

SAVE_S = 30.0  # counters that a killed agent may lose
Steps = Callable[[SessionDir | None], None]  # listen to this session's steps, or to none


class Governor:
    """Serves the sessions of one board. `handle` is called by one thread only."""

    def __init__(
        self,
        board: BoardPort,
        planner: Planner,
        keeper: Keeper,
        files: SessionFiles,
        sessions_dir: Path,
        log: Log,
        report: Report,
        metrics: Metrics,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        listen: Steps,
        settings: Settings | None = None,
    ) -> None:
        self._board, self._planner, self._keeper, self._files = board, planner, keeper, files
        self._sessions_dir, self._log, self._report, self._metrics = sessions_dir, log, report, metrics
        self._clock, self._now, self._listen = clock, now, listen
        self._settings = settings or Settings()
        self.state: SessionState | None = None
        self.course: Course | None = None
        self._waiting: SessionSpec | None = None
        self._last_reading: Reading | None = None
        self._observed_step_s: float | None = None
        self._saved_s = clock()

    # Life of a session

    def start(self) -> None:
        """Take care of what an earlier run left; call it once before the first event."""
        self._keeper.tick()
        state = self._files.load()
        if state is None:
            return
        self._serve(state)
        assert self.course is not None
        self.course.resume()

    def open(self, spec: SessionSpec, pid: int | None = None) -> None:
        """Begin a session; its first safe mode is set as soon as the planner names it."""
        if abs(spec.protocol - PROTOCOL) > 1:
            self._refuse(spec, f"VersionSkew: the envelope speaks protocol {spec.protocol}, this agent {PROTOCOL} ± 1")
            return
        state = SessionState(spec, pid=pid, strategy=spec.plan.strategy)
        self._save(state)
        self._serve(state)
        assert self.course is not None
        self.course.begin()

    def close(self, reason: str) -> None:
        """Forget the session; what was found is restored already, or was never changed."""
        state, self.state, self.course = self.state, None, None
        if state is None:
            return
        self._planner.rest()
        self._listen(None)
        SessionDir(self._sessions_dir, state.spec.uid).remove()
        self._files.remove()
        state.phase, state.restored, state.gate_open, state.verified = Phase.ENDED, True, False, False
        state.reason, state.message = Reason.HOLD, reason
        self._log("ended", session=state.spec.uid, job=str(state.spec.job), reason=reason)
        self._report(status_of(state), True)
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.uid != self._keeper.released:
            self.open(waiting)

    def _serve(self, state: SessionState) -> None:
        self.state = state
        self._keeper.power_node_gone = False
        self._listen(SessionDir(self._sessions_dir, state.spec.uid))
        self.course = Course(
            state,
            Tools(
                self._board,
                self._planner,
                self._metrics,
                self._log,
                self._clock,
                self._now,
                self._save,
                self._changed,
                self._open_gate,
                self._settings,
            ),
        )

    def _refuse(self, spec: SessionSpec, reason: str) -> None:
        state = SessionState(spec, phase=Phase.REFUSED, message=reason, restored=True)
        self._log("refused", session=spec.uid, job=str(spec.job), reason=reason)
        self._report(status_of(state), True)

    # Events

    def handle(self, event: Event) -> None:
        """Take one event to its end."""
        match event:
            case Reading():
                self._reading(event)
            case StepsSeen():
                self._steps(event)
            case Planned() if self.course is not None:
                self.course.planned(event)
            case Tick():
                self._tick(event.at)
            case EnvelopeSeen():
                self._envelope(event)
            case TrainingSaid():
                self._said(event)
            case SensorFailed():
                self._metrics.sensor_failed()
                self._log("sensor", reason=event.reason)
            case ApiAway():
                self._keeper.api_is_away(self._clock() - event.since)
                self._log("api", reason="the API server is away: the mode is held and guarded")
            case ApiBack():
                self._keeper.api_away_since_s = None
                self._log("api", reason="the API server is back")
            case PowerNodeGone():
                self._keeper.power_node_gone = True

    def _reading(self, reading: Reading) -> None:
        self._metrics.power(reading)
        last, self._last_reading = self._last_reading, reading
        if self.state is None or self.course is None:
            return
        if last is not None:
            self.state.energy_j += 0.5 * (last.power_w + reading.power_w) * max(0.0, reading.at_s - last.at_s)
        self.course.power(reading)

    def _steps(self, seen: StepsSeen) -> None:
        if self.state is None or self.course is None:
            return
        self.state.steps += seen.count
        if seen.duration_s is not None:
            self._observed_step_s = seen.duration_s / seen.count
        self._metrics.steps(str(self.state.spec.job), seen, self.state.spec.workload.batch_size)
        self.course.steps(seen)

    def _said(self, said: TrainingSaid) -> None:
        if self.state is None:
            return
        if said.kind is Kind.EPOCH:
            self.state.epochs = int(said.value)
        else:
            self.state.accuracy = said.value

    def _envelope(self, event: EnvelopeSeen) -> None:
        self._keeper.released = event.release
        self._keeper.power_node_gone = False
        self._keeper.api_away_since_s = None
        spec, state = event.spec, self.state
        if spec is None or spec.uid == event.release:
            return
        if state is None:
            self.open(spec)
        elif state.spec.uid != spec.uid:
            self._waiting = spec
        elif state.spec != spec and self.course is not None:
            state.spec = spec
            self._save(state)
            self.course.upkeep.follow_budget()
            self.course.helm.set_guard()
            self._changed()

    def _tick(self, now_s: float) -> None:
        kept = self._keeper.tick()
        state = self.state
        if state is None:
            return
        if kept is not None and kept[0].action is Action.RESTORE:
            self._restored(kept[0].reason, kept[1] is not None and kept[1].ok)
            return
        if kept is None and state.mode is None and self._keeper.over():
            self.close("the session is over before a mode was set")
            return
        assert self.course is not None
        last_s = self._last_reading.at_s if self._last_reading else None
        self.course.tick(now_s, last_s)
        self._publish(urgent=False)
        if now_s - self._saved_s >= SAVE_S:
            self._save(state)

    def _restored(self, reason: str, ok: bool) -> None:
        self._metrics.restored(ok)
        if ok:
            self.close(reason)
        elif self.state is not None:
            self.state.phase = Phase.RESTORING
            self._publish(urgent=True)

    # What courses call

    def _open_gate(self, state: SessionState) -> None:
        SessionDir(self._sessions_dir, state.spec.uid).write_ready(state.boot_id, str(state.mode))

    def _save(self, state: SessionState) -> None:
        self._saved_s = self._clock()
        try:
            self._files.save(state)
        except (OSError, SnapshotError) as error:
            self._log("disk", session=state.spec.uid, reason=f"the session could not be saved: {error}")

    def _changed(self) -> None:
        self._publish(urgent=True)

    def _publish(self, urgent: bool) -> None:
        if self.state is None:
            return
        power_w = self._last_reading.power_w if self._last_reading else None
        if self.course is not None and self.course.helm.guard.mean_w > 0:
            power_w = self.course.helm.guard.mean_w
        self._metrics.expectation(self.state.chosen, self._observed_step_s, power_w)
        self._report(status_of(self.state, self._observed_step_s, power_w), urgent)
