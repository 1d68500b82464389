"""The loop: one thread of truth. It takes events one by one, serves one session at a time, and holds on doubt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from powertrain.api.conditions import find
from powertrain.api.v1alpha1 import PROTOCOL, NodePolicy, Phase, Reason, SessionSpec, SessionStatus
from powertrain_agent.control.hold import Action
from powertrain_agent.control.report import Report as BoardReport
from powertrain_agent.control.snapshot import SnapshotError
from powertrain_agent.governor.course import Course
from powertrain_agent.governor.events import (
    ApiAway,
    ApiBack,
    EnvelopeSeen,
    Event,
    HeldBy,
    Planned,
    PolicySeen,
    PowerNodeGone,
    SensorFailed,
    Tick,
)
from powertrain_agent.governor.helm import MODE_APPLIED, Settings, Tools
from powertrain_agent.governor.ports import BoardPort, Metrics, Planner, Report
from powertrain_agent.governor.resume import resume
from powertrain_agent.governor.session_file import SessionFiles, SessionState
from powertrain_agent.governor.status import ResultOf, status_of
from powertrain_agent.keeper import Keeper
from powertrain_agent.process import Process
from powertrain_agent.site import Site
from powertrain_agent.steps import Kind, SessionDir, StepsSeen, TrainingSaid
from powertrain_agent.telemetry import Reading
from powertrain_kube.log import Log

SAVE_S = 30.0  # counters that a killed agent may lose
NOT_HELD = "NotHeld"
Steps = Callable[[SessionDir | None], None]  # listen to this session's steps, or to none
SiteChanged = Callable[[bool, str, str], None]  # the policy is in force or not, with reason and message


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
        site: Site,
        settings: Settings | None = None,
        site_changed: SiteChanged = lambda in_force, reason, message: None,
    ) -> None:
        self._board, self._planner, self._keeper, self._files = board, planner, keeper, files
        self._sessions_dir, self._log, self._report, self._metrics = sessions_dir, log, report, metrics
        self._clock, self._now, self._listen = clock, now, listen
        self._settings = settings or Settings()
        self._site, self._site_changed = site, site_changed
        self._fan_on: bool | None = None
        self.state: SessionState | None = None
        self.course: Course | None = None
        self._waiting: tuple[SessionSpec, Process | None] | None = None
        self._answered: str | None = None  # the release that was last reported as restored
        self._last_reading: Reading | None = None
        self._last_step_s: float | None = None
        self._saved_s = clock()
        self._result_of = ResultOf()

    # Life of a session

    def start(self) -> None:
        """Take care of what an earlier run left; call it once before the first event."""
        kept = self._keeper.tick()
        state = self._files.load()
        if state is None:
            self._settle_policy()
        self._tell_policy()
        if state is None:
            return
        self._serve(state)
        assert self.course is not None
        if kept is not None and kept[0].action is Action.RESTORE:
            self._restored(kept[0].reason, kept[1])
        elif kept is None and self._keeper.over():
            self.close("the session is over, and the board is not changed for it")
        else:
            resume(self.course)

    def offer(self, spec: SessionSpec, process: Process | None = None) -> None:
        """Begin a session now, or as soon as the one before has given the board back."""
        if self.state is None:
            self.open(spec, process)
        else:
            self._waiting = (spec, process)

    def open(self, spec: SessionSpec, process: Process | None = None) -> None:
        """Begin a session; its first safe mode is set as soon as the planner names it."""
        if abs(spec.protocol - PROTOCOL) > 1:
            self._refuse(spec, f"VersionSkew: the envelope speaks protocol {spec.protocol}, this agent {PROTOCOL} ± 1")
            return
        state = SessionState(spec, process=process, strategy=spec.plan.strategy)
        self._save(state)
        self._serve(state)
        assert self.course is not None
        self.course.begin()

    def close(self, reason: str) -> None:
        """Forget the session; what was found is restored already, or was never changed."""
        state, self.state, self.course, self._fan_on = self.state, None, None, None
        if state is None:
            return
        self._planner.rest()
        self._listen(None)
        SessionDir(self._sessions_dir, state.spec.uid).remove()
        self._files.remove()
        state.phase, state.restored, state.gate_open, state.verified = Phase.ENDED, True, False, False
        state.reason, state.message = Reason.HOLD, reason
        self._answered = state.spec.uid
        # What is not in force any more must not be shown: an alert would compare with it.
        self._metrics.session(None)
        self._metrics.budget(None)
        self._metrics.mode(None, False)
        self._metrics.expectation(None, None, None)
        self._metrics.front(())
        self._log("ended", session=state.spec.uid, job=str(state.spec.job), reason=reason)
        self._report(status_of(state, self._result_of(state)), True)
        self._settle_policy()
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting[0].uid != self._keeper.released:
            self.open(*waiting)

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
                self._site,
                self._settings,
            ),
        )
        self._metrics.session(str(state.spec.job))
        self._metrics.budget(self.course.helm.budget.power_w)

    def _answer_release(self) -> None:
        """Report a released session that left nothing here: the operator waits for that, whoever served it."""
        uid = self._keeper.released
        if uid is None or uid == self._answered:
            return
        self._answered = uid
        message = "released: nothing of this session is left on the board"
        self._log("ended", session=uid, reason=message)
        self._report(
            SessionStatus(uid=uid, phase=Phase.ENDED, reason=Reason.HOLD, message=message, restored=True), True
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
            case PolicySeen():
                self._policy(event.policy)
            case HeldBy():
                self._held_by(event)
            case TrainingSaid():
                self._said(event)
            case SensorFailed():
                self._metrics.sensor_failed()
                if event.first:
                    self._log("sensor", reason=event.reason)
            case ApiAway():
                self._keeper.api_is_away(self._clock() - event.since)
                self._log("api", reason="the API server is away: the mode is held and guarded")
            case ApiBack():
                self._keeper.api_away_since_s = None
                self._log("api", reason="the API server is back")
            case PowerNodeGone():
                self._keeper.power_node_gone = True

    def _held_by(self, event: HeldBy) -> None:
        if self.state is not None and self.state.spec.uid == event.uid:
            self.state.process = event.process
            self._save(self.state)

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
            self._last_step_s = seen.duration_s / seen.count
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
        self._keeper.api_away_since_s = None
        spec, state = event.spec, self.state
        if not event.refused:
            # A PowerNode that asks for another session, or for none, is as good as gone for the one that is served.
            served = None if state is None else state.spec.uid
            self._keeper.power_node_gone = (None if spec is None else spec.uid) != served
        self._waiting = None
        if spec is None or spec.uid == event.release:
            return
        if state is None:
            self.open(spec)
        elif state.spec.uid != spec.uid:
            self._waiting = (spec, None)
        elif state.spec != spec and self.course is not None:
            self.course.amend(spec)

    def _policy(self, policy: NodePolicy | None) -> None:
        if not self._site.take(policy):
            return
        self._log("policy", reason="the site's policy changes", **self._site.asked.wire())
        if self.course is not None:
            self.course.limits_changed()
            self._changed()
        self._settle_policy()
        self._tell_policy()

    def _settle_policy(self) -> None:
        """Put the whole policy in force once no session runs; a session keeps the modes it began with."""
        if self.state is not None or self._site.in_force == self._site.asked:
            return
        fitted = self._board.refit(self._site.asked)
        self._site.shortfall = fitted.reason
        if fitted.ok:
            self._site.settle()
        self._log("cores", reason=fitted.reason or "as the policy says", modes=len(self._board.space), ok=fitted.ok)
        self._tell_policy()

    def _tell_policy(self) -> None:
        site = self._site
        if site.is_pending:
            waits = "watts hold now, the rest when the session has ended"
            self._site_changed(False, "SessionRunning" if self.state else "BoardHeld", site.shortfall or waits)
        else:
            self._site_changed(not site.shortfall, "CoresStayFixed" if site.shortfall else "InForce", site.shortfall)

    def _follow_fan(self) -> None:
        """Run the fan at its maximum while modes are profiled, where the policy wants it."""
        if self.state is None or not self._site.in_force.fan_max_while_profiling:
            return
        wanted = self.state.phase is Phase.PROFILING
        if wanted != self._fan_on:
            self._fan_on = wanted
            done = self._board.fan_max(wanted)
            self._log("fan", max=wanted, ok=done.ok, reason=done.reason)

    def _tick(self, now_s: float) -> None:
        kept = self._keeper.tick()
        state = self.state
        if state is None:
            if kept is None:
                self._answer_release()
            self._settle_policy()
            return
        if kept is not None and kept[0].action is Action.RESTORE:
            self._restored(kept[0].reason, kept[1])
            return
        if kept is None and state.mode is None and self._keeper.over():
            self.close("the session is over before a mode was set")
            return
        assert self.course is not None
        last_s = self._last_reading.at_s if self._last_reading else None
        self.course.tick(now_s, last_s)
        self._note_held(kept[1] if kept is not None else None)
        self._follow_fan()
        self._publish(urgent=False)
        if now_s - self._saved_s >= SAVE_S:
            self._save(state)

    def _note_held(self, report: BoardReport | None) -> None:
        """Say in the session's conditions whether somebody else's change could be undone."""
        assert self.state is not None
        assert self.course is not None
        noted = find(self.state.conditions, MODE_APPLIED)
        helm, lost = self.course.helm, noted is not None and noted.reason == NOT_HELD
        if report is not None and report.problems:
            helm.condition(MODE_APPLIED, False, NOT_HELD, "; ".join(map(str, report.problems)))
        elif lost and report is not None:
            helm.condition(MODE_APPLIED, True, "Verified", f"{report.mode} holds again")

    def _restored(self, reason: str, report: BoardReport | None) -> None:
        ok = report is not None and report.ok
        self._metrics.restored(ok)
        if ok:
            self.close(reason)
        elif self.state is not None:
            state, problems = self.state, "; ".join(map(str, report.problems)) if report is not None else ""
            told = (state.phase, state.message)
            state.phase, state.message = Phase.RESTORING, f"{reason}, but not all could be restored: {problems}"
            self._publish(urgent=told != (state.phase, state.message))

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
        step_s, power_w = self._observed()
        self._metrics.expectation(self.state.chosen, step_s, power_w)
        self._metrics.front(self.state.points)
        self._report(status_of(self.state, self._result_of(self.state), step_s, power_w), urgent)

    def _observed(self) -> tuple[float | None, float | None]:
        """Return step time and power: of the last seconds where a mode stays, else what was seen last."""
        step_s, power_w = self._last_step_s, self._last_reading.power_w if self._last_reading else None
        if self.course is None:
            return step_s, power_w
        helm = self.course.helm
        if helm.drift.expected is not None:
            step_s = helm.drift.observed()[0] or step_s
        return step_s, helm.guard.mean_w if helm.guard.mean_w > 0 else power_w
