"""A small world around the machine alone: a board of twelve modes, a training, a planner that may be wrong, and time.

It carries commands out as the executor does, but on values; every command passes the promises of `check`.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from powertrain import ModeSpace, PowerMode
from powertrain.api.v1alpha1 import NodePolicy, Phase, SessionSpec
from powertrain_agent.governing import session_file
from powertrain_agent.governing.commands import ApplyMode, AskPlanner, CloseGate, Command, Inspect, OpenGate
from powertrain_agent.governing.events import (
    Amended,
    Inspected,
    ModeApplied,
    Opened,
    PolicyChanged,
    ReportDue,
    Restored,
    Result,
    Resumed,
    SessionEvent,
    Tick,
)
from powertrain_agent.governing.limits import MomentLimits, least
from powertrain_agent.governing.machine import Waiting, decide
from powertrain_agent.governing.measurement_window import WindowRules
from powertrain_agent.governing.ports import Health
from powertrain_agent.governing.record import SessionRecord
from powertrain_agent.governing.sensor_loss import doubt
from powertrain_agent.governing.session import BoardFacts, Facts, Session
from powertrain_agent.governing.settings import SessionSettings
from powertrain_agent.governing.states import TRIALS, Blind, New, Running, State
from powertrain_agent.governing.transitions import conclusions, targets
from powertrain_agent.planning.front import Point
from powertrain_agent.planning.messages import (
    NextMode,
    PlanAnswer,
    PlanFailure,
    Planned,
    PlannedChoice,
    PlanRequest,
    Question,
)
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading

SPACE = ModeSpace.grid(
    [4], [800_000, 1_100_000, 1_500_000], [300_000_000, 450_000_000, 600_000_000, 800_000_000], [2_133_000_000]
)
MODES = tuple(SPACE)
NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
READING_S = 0.4
SETTINGS = SessionSettings(
    period_s=READING_S,
    rules=WindowRules(stable_s=1.2, settle_limit_s=2.0, min_readings=3, min_steps=3, max_steps=6, patience_s=6.0),
    no_steps_s=12.0,
    check_after_s=3.0,
    retry_s=2.0,
)


def spec(**changes: Any) -> SessionSpec:
    """An envelope under 20 W, unless it says otherwise."""
    fields = {
        "protocol": 1,
        "uid": "session-1",
        "job": {"namespace": "a", "name": "b"},
        "podUIDs": ["pod-1"],
        "limits": {"powerWatts": 20.0},
        "workload": {"name": "w", "batchSize": 16},
        "plan": {"maxModes": 4},
    }
    return SessionSpec.model_validate({**fields, **changes})


@cache
def declared(state: type[State], event: type) -> frozenset[type[State]]:
    """The states that may follow by the handlers' types; a trial whose visit has ended is concluded at once."""
    possible, reached = set(targets(state, event)), set[type[State]]()
    while possible - reached:
        reached |= possible
        possible |= {after for each in reached if each in TRIALS for after in conclusions(each)}  # type: ignore[arg-type]
    return frozenset(possible)


def power_w(mode: PowerMode) -> float:
    """What the training takes in a mode: 8.6 to 29 W."""
    return 4.0 + 4.0 * mode.cpu_khz / 1_500_000 + 21.0 * (mode.gpu_hz / 800_000_000) ** 1.5


def step_s(mode: PowerMode) -> float:
    """How long a step takes in a mode: 0.2 to 0.5 s."""
    return 0.05 + 0.05 * 1_500_000 / mode.cpu_khz + 0.1 * 800_000_000 / mode.gpu_hz


@dataclass
class SessionHarness:
    """One session, from its envelope to its end."""

    spec: SessionSpec
    now_s: float = 100.0
    load_w: float = 0.0
    sensor: bool = True
    trains: bool = False
    applies: bool = True
    admits: bool = True
    lies: bool = False  # the planner names any mode
    policy: NodePolicy = field(default_factory=NodePolicy)
    boot_id: str = "boot-1"
    mode: PowerMode = MODES[-1]
    state: State = field(default_factory=New)
    commands: list[Command] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(1)
        self._last: Reading | None = None
        self._questions: list[AskPlanner] = []
        self._gate: bool | None = None
        self._verified = False  # the safe mode, in this boot
        self.session = self._session(SessionRecord(self.spec))
        self.take(Opened())

    @property
    def record(self) -> SessionRecord:
        return self.session.record

    def facts(self) -> Facts:
        return Facts(
            self.now_s,
            NOON + timedelta(seconds=self.now_s),
            self.policy,
            least(self.spec.limits.hard_limit_watts, self.policy.hard_max_watts),
            self.policy,
            last_reading=self._last,
            guarded_s=None if self._last is None else self._last.at_s,
            may_admit=self.admits,
            gate_is_open=self._gate,
        )

    def take(self, event: SessionEvent) -> None:
        """Take an event to its end."""
        following: SessionEvent | None = event
        after: State | Waiting = self.state
        while following is not None:
            after, commands = decide(self.session, after, following, self.facts())
            self.commands += commands
            following = None
            for command in commands:
                self.check(command, after)
                following = self._carry_out(command)
            assert following is None or isinstance(after, Waiting), "who has a result must wait for it"
        assert not isinstance(after, Waiting), "who waits must have asked for something"
        assert type(after) in declared(type(self.state), type(event)), f"{self.state} → {after} by {event}"
        self.state = after

    def _carry_out(self, command: Command) -> Result | None:
        match command:
            case ApplyMode(mode):
                self.mode = mode if self.applies else self.mode
                self._verified = self._verified or (self.applies and mode == self.record.start)
                return ModeApplied(mode, self.applies, "" if self.applies else "it does not stick")
            case Inspect():
                return Inspected({}, Health(temperature_c=40.0))
            case AskPlanner():
                self._questions.append(command)
            case OpenGate():
                self._gate = True
            case CloseGate():
                self._gate = False
        return None

    def check(self, command: Command, after: State | Waiting) -> None:
        """What no command may do, in whatever state and after whatever history."""
        record = self.record
        if isinstance(command, OpenGate):
            assert self._verified, "the gate opens before a safe mode was verified in this boot"
        if not isinstance(command, ApplyMode):
            return
        mode, limit_w = command.mode, self._limit_w()
        assert mode in SPACE
        if power_w(mode) <= power_w(self.mode) or mode == record.start:
            return  # less power, or the least
        assert not isinstance(self.state, Blind) or not record.is_blind, "a mode is raised while the power is not read"
        assert record.gate_open, "a mode is raised before the gate is open"
        if limit_w is None or self.session.is_trying:
            return  # tried clock by clock, and left at the first reading above
        assert mode not in record.left_above(limit_w), "a mode is chosen that was left above the limit"
        points = [p for p in record.proven_points() if p.mode == mode]
        assert not points or points[0].power_w <= limit_w * 1.03, "a mode is chosen that was measured above the limit"

    def _limit_w(self) -> float | None:
        """The limit of the moment: the budget of a chosen mode, before that the one of tried modes."""
        is_running = self.record.phase is Phase.RUNNING
        limits = MomentLimits(self.record.spec, self.policy, self.session.budget, None, is_running, False)
        return limits.budget.power_w if is_running else limits.explore_w

    # What happens

    def second(self, count: int = 1) -> None:
        """Let seconds pass: readings, steps, a tick, and what is due."""
        for _ in range(count):
            end_s = self.now_s + 1.0
            while self.now_s + READING_S <= end_s + 1e-9:
                self.now_s += READING_S
                self._read()
            self.now_s = end_s
            self.take(Tick(self.now_s))
            self.take(ReportDue())

    def _read(self) -> None:
        if self.trains:
            each_s = step_s(self.mode)
            steps = max(1, int(READING_S / each_s))
            self.take(StepsSeen(steps, self.now_s, steps * each_s))
        if self.sensor:
            watts = (power_w(self.mode) + self.load_w) * self._random.gauss(1.0, 0.003)
            limit_w, tried = self.session.guard.limit_w, isinstance(self.state, TRIALS)
            before, settling = self.mode, self.session.guard.settling
            reading = Reading(self.now_s, watts)
            if doubt(self.session, reading):
                return
            self.take(reading)
            if tried and limit_w is not None and watts > limit_w and not settling:
                assert power_w(self.mode) <= power_w(before), "raised after a reading above the limit"
            self._last = reading

    def answer(self, wrong: int = 0) -> None:
        """Let the planner answer its last question; `wrong` adds to the number of the request."""
        if self._questions:
            question = self._questions[-1]
            self.take(Planned(question.number + wrong, self._plan(question.request)))

    def fail_plan(self, unavailable: bool) -> None:
        if self._questions:
            self.take(Planned(self._questions[-1].number, PlanFailure("no plan", unavailable)))

    def late_answer(self) -> None:
        """An answer to a question from before."""
        if self._questions:
            self.take(Planned(self._questions[0].number, self._plan(self._questions[0].request)))

    def _plan(self, request: PlanRequest) -> PlanAnswer:
        """A planner that knows the board; one that lies names any mode."""
        limit_w = request.problem.limits.power_w or 1000.0
        fitting = [m for m in MODES if power_w(m) <= 0.97 * limit_w] or [MODES[0]]
        pool = list(MODES) if self.lies else fitting
        modes = sorted({report.mode for report in request.reports}, key=str)
        ahead = [mode for mode in pool if mode not in modes]
        front = tuple(Point(mode, step_s(mode), power_w(mode), 0.01, 0.1) for mode in MODES[::3])
        best = self._random.choice([*pool, *modes, *modes]) if self.lies else min(fitting, key=step_s)
        choice = PlannedChoice(best, None, "best")
        asks = request.question in (Question.NEXT_MODE, Question.CHECK)
        if request.question is Question.WAY_UP:
            climb = sorted((Point(mode, step_s(mode), power_w(mode)) for mode in MODES), key=lambda p: p.power_w)
            return PlanAnswer(way_up=tuple(climb[::3]))
        if asks and ahead and (len(modes) < 4 or request.question is Question.CHECK):
            return PlanAnswer(next_mode=NextMode(self._random.choice(ahead), "may be", 0.2), front=front)
        if request.question is Question.CHECK:
            return PlanAnswer(done="nothing promises more", front=front)
        return PlanAnswer(choice=choice, done="enough", front=front, planned_modes=4)

    def amend(self, **changes: Any) -> None:
        self.spec = spec(generation=self.spec.generation + 1, **changes)
        self.take(Amended(self.spec))

    def allow(self, max_watts: float | None) -> None:
        self.policy = NodePolicy(max_watts=max_watts)
        self.take(PolicyChanged())

    def kill(self, boots: bool = False) -> None:
        """Kill the agent: what goes on is what was on the disk, through the words of its file."""
        raw = json.loads(json.dumps(session_file._profile(self.record)))
        record = SessionRecord(self.spec)
        session_file._fill(record, raw)
        if boots:
            self.boot_id, self._verified, self.mode = f"{self.boot_id}+", False, MODES[-1]
        self._last, self._questions, self.state, self._gate = None, [], New(), None
        self.session = self._session(record)
        self.take(Resumed())

    def release(self, problems: tuple[str, ...] = ()) -> None:
        self.take(Restored("released", problems))

    def mend(self) -> None:
        """End every cause of trouble."""
        self.sensor = self.applies = self.admits = self.trains = True
        self.lies, self.load_w, self.policy = False, 0.0, NodePolicy()
        self.amend()

    def attend(self, seconds: int) -> None:
        """Let seconds pass with a planner that answers within each."""
        for _ in range(seconds):
            self.answer()
            self.second()

    def lose_steps(self) -> None:
        """Begin a training that counts no steps, and wait until that is noticed."""
        self.trains = False
        self.attend(16)

    def settles(self, seconds: int) -> bool:
        """Say whether the training runs in a chosen mode within some seconds, with a planner that answers."""
        for _ in range(seconds):
            self.second()
            self.answer()
            if isinstance(self.state, Running) and self.record.phase is Phase.RUNNING:
                return True
        return False

    def _session(self, record: SessionRecord) -> Session:
        board = BoardFacts(SPACE, self.boot_id)
        return Session.of(record, board, replace(SETTINGS), self.facts())
