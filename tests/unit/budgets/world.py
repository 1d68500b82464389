"""A site in memory: boards whose power lags, agents and operators that die, messages that are late, lost or doubled.

The protocol under test is the real one: the operator's `share_out`, the cache's rule for writes without an answer, and
the agent's `Shares`. What is modelled is the world around them.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from powertrain.api.v1alpha1 import BoardState, BudgetGoal, PowerShare, ShareStatus
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain.sharing import Demand
from powertrain_agent.shares import Shares
from powertrain_agent.telemetry import Reading
from powertrain_operator.budgets.accounting import Board
from powertrain_operator.budgets.cap import LEAD
from powertrain_operator.budgets.decision import Decision, Limits, bounds_ahead, share_out
from powertrain_operator.budgets.protocol import ShareTerms, next_writes
from powertrain_operator.budgets.share_targets import Pace, Targets

START = datetime(2026, 6, 1, 21, 0, tzinfo=UTC)
TICK_S = 0.5
# After a fall of the cap that nobody could foresee, boards that can be reached have followed within this time.
FOLLOWED_S = 25.0
BUDGET = "shed"


def silent(event: str, **fields: object) -> None:
    """Take no note of log lines."""


class MemoryDir:
    """A state directory that survives its agent; the disk may be full for a while."""

    def __init__(self) -> None:
        self.path = Path("/memory")
        self.files: dict[str, bytes] = {}
        self.is_full = False

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def replace(self, name: str, data: bytes) -> None:
        if self.is_full:
            raise OSError("no space left on device")
        self.files[name] = data


@dataclass(frozen=True)
class Stored:
    """A PowerNode at the API server."""

    version: int
    share: PowerShare | None = None
    confirmed_share: ShareStatus | None = None
    idle_w: float | None = None
    drawn_w: float | None = None
    has_session: bool = False


@dataclass
class Jetson:
    """A board: its power follows its mode with a lag; without an agent it stays in its mode."""

    name: str
    idle_w: float
    modes_w: tuple[float, ...]
    lag_s: float
    power_w: float = 0.0
    mode_w: float | None = None  # of a job's mode in force; None: no job trains
    wants_job: bool = False

    def step(self) -> None:
        goal_w = self.idle_w if self.mode_w is None else self.mode_w
        self.power_w += (goal_w - self.power_w) * (1.0 - math.exp(-TICK_S / self.lag_s))


@dataclass
class Agent:
    """One life of an agent; its shares come from the disk."""

    shares: Shares
    has_session: bool = False
    published: tuple[object, ...] = ()


@dataclass
class Operator:
    """One life of an operator: what it has seen, and which writes have no answer."""

    identity: str
    cache: dict[str, Stored] = field(default_factory=dict)
    doubts: dict[str, int] = field(default_factory=dict)
    targets: dict[str, float] = field(default_factory=dict)
    reshared_at: datetime | None = None


class World:
    """One history. `random` decides everything; the same seed gives the same history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.version = 10
        self.fall: tuple[float, float] | None = None  # a scheduled fall: when, to which cap
        self.disturbed_s = 0.0
        self.windows: deque[float] = deque(maxlen=round(DEFAULT_WINDOW_S / TICK_S))
        self.boards = [self._new_board(number) for number in range(self.random.randint(2, 4))]
        self.cap_w = self.allowed_w = self._some_cap_w()
        self.disks = {board.name: MemoryDir() for board in self.boards}
        self.agents: dict[str, Agent | None] = {board.name: self._agent(board.name) for board in self.boards}
        self.objects = {board.name: Stored(self._next_version()) for board in self.boards}
        self.goal = self.random.choice(tuple(BudgetGoal))
        self.operator: Operator | None = self._operator()
        self.deliveries: list[tuple[float, str, Stored]] = []  # to agents
        self.reports: list[tuple[float, str, tuple[object, ...]]] = []  # of agents
        self.flights: list[tuple[float, str, int, PowerShare | None, bool]] = []  # writes of operators
        self.cut_off_until = dict.fromkeys(self.agents, 0.0)
        # Some histories are quiet, so that shares move often; in others much fails.
        self.is_rough = self.random.random() < 0.7
        self.is_fickle = self.random.random() < 0.5
        self.raised = 0
        self.killed = 0

    # Making

    def _new_board(self, number: int) -> Jetson:
        idle_w, lowest_w = self.random.uniform(2, 5), self.random.uniform(5, 8)
        top_w = self.random.uniform(15, 45)
        count = 12
        modes = tuple(lowest_w + (top_w - lowest_w) * place / count for place in range(count + 1))
        wants_job = self.random.random() < 0.9
        return Jetson(f"b{number}", idle_w, modes, self.random.uniform(0.2, 1.2), idle_w, wants_job=wants_job)

    def _some_cap_w(self) -> float:
        """Return a cap between what the boards need at least, or a little less, and half of what they could take.

        Never below what they take without a job: no share can change that.
        """
        idle_w = sum(board.idle_w for board in self.boards)
        least_w = sum(board.modes_w[0] for board in self.boards)
        most_w = sum(board.modes_w[-1] for board in self.boards)
        return max(least_w + self.random.uniform(-0.1, 0.5) * (most_w - least_w), 1.25 * idle_w + 2.0)

    def _agent(self, name: str) -> Agent:
        return Agent(Shares(self.disks[name], silent))  # type: ignore[arg-type]

    def _operator(self) -> Operator:
        return Operator(f"operator-{self.random.random()}", dict(self.objects))

    def _next_version(self) -> int:
        self.version += 1
        return self.version

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.now_s)

    # One tick

    def tick(self) -> None:
        """Let half a second pass."""
        self.now_s += TICK_S
        self._happen()
        self._arrive()
        for board in self.boards:
            self._serve(board)
            board.step()
        if self.random.random() < 0.4:
            self._operate()
        self.windows.append(sum(board.power_w for board in self.boards))
        self._allow()

    def plan_fall(self, at_s: float, part: float) -> None:
        """Let the schedule lower the cap at a moment, no lower than the lowest modes."""
        least_w = sum(max(1.2 * board.idle_w + 1.0, 1.05 * board.modes_w[0]) for board in self.boards)
        self.cap_w = self.allowed_w = max(self.cap_w, least_w / part)
        self.fall = (at_s, part * self.cap_w)

    def isolate(self) -> None:
        """The API server is away from now on: nobody is reached, nobody reports, no operator acts."""
        self.operator = None
        self.cut_off_until = dict.fromkeys(self.agents, math.inf)
        self.deliveries, self.reports, self.flights = [], [], []

    def mean_w(self) -> float | None:
        """Return the mean of the last three seconds, None before there are as many."""
        return sum(self.windows) / len(self.windows) if len(self.windows) == self.windows.maxlen else None

    def _allow(self) -> None:
        """A fall that nobody could foresee is followed once everybody could be reached for a while."""
        foreseen = self.fall is not None and self.now_s >= self.fall[0]
        if foreseen or self.now_s - self.disturbed_s >= FOLLOWED_S or self._cap_w() >= self.allowed_w:
            self.allowed_w = self._cap_w()

    def _cap_w(self, ahead: timedelta = timedelta()) -> float:
        at_s = self.now_s + ahead.total_seconds()
        return min(self.cap_w, self.fall[1]) if self.fall is not None and at_s >= self.fall[0] else self.cap_w

    def _happen(self) -> None:
        """Let something happen: jobs, kills, cuts, full disks, other caps."""
        dice, board = self.random.random(), self.random.choice(self.boards)
        if dice < (0.005 if self.is_fickle else 0.03):
            board.wants_job = not board.wants_job
        elif not self.is_rough:
            return
        elif dice < 0.04:
            self.agents[board.name] = None if self.agents[board.name] is not None else self._agent(board.name)
            self._disturb()
        elif dice < 0.05:
            self.cut_off_until[board.name] = self.now_s + self.random.uniform(2, 20)
            self._disturb(self.cut_off_until[board.name])
        elif dice < 0.06:
            self.operator = self._operator() if self.operator is None or self.random.random() < 0.5 else None
            self.killed += 1
            self._disturb()
        elif dice < 0.065:
            self.disks[board.name].is_full = not self.disks[board.name].is_full
        elif dice < 0.07 and self.fall is None:
            self.cap_w = self._some_cap_w()
            self._disturb()
        elif self.operator is None and dice < 0.2:
            self.operator = self._operator()
            self._disturb()
        elif self.agents[board.name] is None and dice < 0.4:
            self.agents[board.name] = self._agent(board.name)
            self._disturb()
        if any(disk.is_full for disk in self.disks.values()) or self.operator is None or None in self.agents.values():
            self._disturb()

    def _disturb(self, until_s: float | None = None) -> None:
        self.disturbed_s = max(self.disturbed_s, self.now_s, until_s or 0.0)

    # Messages

    def _delay_s(self) -> float:
        return self.random.choice((0.0, 0.0, 0.0, 0.5, self.random.uniform(0, 5) if self.is_rough else 0.5))

    def _store(self, name: str, stored: Stored) -> None:
        self.objects[name] = replace(stored, version=self._next_version())
        for _ in range(self.random.choice((1, 1, 2))):  # some come twice
            if self.random.random() < 0.9:  # and some never
                self.deliveries.append((self.now_s + self._delay_s(), name, self.objects[name]))
        if self.operator is not None and self.random.random() < 0.7:
            self.operator.cache[name] = self.objects[name]

    def _arrive(self) -> None:
        self.random.shuffle(self.deliveries)
        due = [each for each in self.deliveries if each[0] <= self.now_s]
        self.deliveries = [each for each in self.deliveries if each[0] > self.now_s]
        for _, name, stored in due:
            self._deliver(name, stored)
        for at_s, name, status in [each for each in self.reports if each[0] <= self.now_s]:
            self.reports.remove((at_s, name, status))
            confirmed, idle_w, drawn_w = status
            self._store(name, replace(self.objects[name], confirmed_share=confirmed, idle_w=idle_w, drawn_w=drawn_w))  # type: ignore[arg-type]
        for flight in [each for each in self.flights if each[0] <= self.now_s]:
            self.flights.remove(flight)
            _, name, version, share, has_session = flight
            if self.objects[name].version == version:
                self._store(name, replace(self.objects[name], share=share, has_session=has_session))

    def _deliver(self, name: str, stored: Stored) -> None:
        agent = self.agents[name]
        if agent is None or self.now_s < self.cut_off_until[name]:
            return
        agent.shares.take([stored.share] if stored.share is not None else [])
        agent.has_session = stored.has_session

    # Agents

    def _serve(self, board: Jetson) -> None:
        agent, name = self.agents[board.name], board.name
        if agent is None:
            return  # the mode stays, nobody changes it
        if self.random.random() < 0.05:
            self._deliver(name, self.objects[name])  # a list now and then
        limit = agent.shares.limit_at(self.now)
        limit_w = limit.watts if limit is not None else float("inf")
        if agent.has_session or board.mode_w is not None:
            fitting = [watts for watts in board.modes_w if watts <= limit_w]
            board.mode_w = max(fitting, default=board.modes_w[0]) if agent.has_session else None
        agent.shares.reading(Reading(self.now_s, board.power_w), has_job=board.mode_w is not None)
        agent.shares.confirm(is_verified=True)
        self._report(board, agent)

    def _report(self, board: Jetson, agent: Agent) -> None:
        confirmed = next(iter(agent.shares.confirmed), None)
        figures = (confirmed, agent.shares.idle.watts, board.power_w)
        if self.now_s < self.cut_off_until[board.name] or self.random.random() < 0.2:
            return
        if (confirmed, figures[1]) != agent.published or self.random.random() < 0.01:
            agent.published = (confirmed, figures[1])
            if not self.is_rough or self.random.random() < 0.9:
                # An agent writes what is newest: what it wrote before never comes after it.
                self.reports = [each for each in self.reports if each[1] != board.name]
                self.reports.append((self.now_s + self._delay_s(), board.name, figures))
            else:
                agent.published = ()

    # The operator

    def _operate(self) -> None:
        operator = self.operator
        if operator is None:
            return
        for name, stored in self.objects.items():
            if self.random.random() < 0.5:
                operator.cache[name] = stored
        boards = [self._account(operator, board) for board in self.boards]
        falls = ()
        if self.fall is not None and self.now_s + LEAD.total_seconds() < self.fall[0]:
            falls = ((START + timedelta(seconds=self.fall[0]), min(self.cap_w, self.fall[1])),)
        limits = Limits(self._cap_w(LEAD), falls)
        terms = ShareTerms(BUDGET, operator.identity, self.now, DEFAULT_WINDOW_S)
        pace = Pace(self.now, operator.reshared_at, 3.0)
        if self.is_fickle:
            decision = self._fickle(operator, boards, limits, pace, terms)
        else:
            decision = share_out(boards, operator.targets, limits, self.goal, pace, terms)
        operator.targets = dict(decision.targets.watts)
        if decision.targets.is_new:
            operator.reshared_at = self.now
        for write in decision.writes:
            before = operator.cache[write.board].share
            self.raised += before is not None and write.share.watts > before.watts
            if not self._write(operator, write.board, write.share, operator.cache[write.board].has_session):
                return
        for board in boards:
            self._write_session(operator, board, board.name in decision.targets.starved)

    def _fickle(
        self, operator: Operator, boards: list[Board], limits: Limits, pace: Pace, terms: ShareTerms
    ) -> Decision:
        """Give the watts to anybody, and to somebody else a moment later: safety must not depend on good choices."""
        targets, is_new = operator.targets, pace.is_due
        if is_new:
            parts = [self.random.random() ** 8 for _ in boards]
            free_w = limits.available_w - sum(board.idle_allowance_w or 0.0 for board in boards)
            parts_w = [max(0.0, free_w) * part / sum(parts) for part in parts]
            targets = {b.name: (b.idle_allowance_w or 0.0) + watts for b, watts in zip(boards, parts_w, strict=True)}
        starved = frozenset(board.name for board in boards if targets.get(board.name, 0.0) < board.floor_w)
        decided = Targets(targets, starved, is_new)
        ahead = bounds_ahead(boards, decided, limits)
        return Decision(decided, tuple(next_writes(boards, targets, ahead, limits.available_w, terms)))

    def _write_session(self, operator: Operator, board: Board, is_starved: bool) -> None:
        """Open the envelope once the share is enough for the lowest mode; end it where the job ends or has no power."""
        stored, model = operator.cache[board.name], next(b for b in self.boards if b.name == board.name)
        enough = stored.share is not None and stored.share.watts >= board.floor_w
        has_session = model.wants_job and not is_starved and (stored.has_session or enough)
        if has_session != stored.has_session:
            self._write(operator, board.name, stored.share, has_session)

    def _account(self, operator: Operator, board: Jetson) -> Board:
        stored = operator.cache[board.name]
        governed = board.wants_job or stored.has_session
        floor_w = board.modes_w[0] * 1.02
        speed = tuple(watts**0.7 for watts in board.modes_w)
        demand = Demand(board.name, board.modes_w, speed, 100.0 * len(board.name), floor_w, board.modes_w[-1])  # type: ignore[arg-type]
        return Board(
            name=board.name,
            state=BoardState.GOVERNED if governed else BoardState.IDLE,
            most_w=board.modes_w[-1],
            share=stored.share,
            confirmed_share=stored.confirmed_share,
            idle_w=stored.idle_w,
            drawn_w=stored.drawn_w,
            is_unsure=operator.doubts.get(board.name, -1) >= stored.version,
            floor_w=floor_w if governed else 0.0,
            demand=demand if governed else None,
            job=board.name if governed else "",
            is_stopping=governed and not board.wants_job,
            has_session=stored.has_session,
        )

    def _write(self, operator: Operator, name: str, share: PowerShare | None, has_session: bool) -> bool:
        """Send a write for the version that was seen; say whether an answer came that it was done."""
        version = operator.cache[name].version
        operator.doubts[name] = version
        fate = self.random.random()
        if fate < (0.15 if self.is_rough else 0.05):
            self.flights.append((self.now_s + self.random.uniform(0, 15), name, version, share, has_session))
            return False  # under way for a while; nobody knows
        if fate < 0.18:
            return False  # lost
        if self.objects[name].version != version:
            return False  # refused: the object has changed
        self._store(name, replace(self.objects[name], share=share, has_session=has_session))
        if fate < 0.25:
            return False  # done, but the answer is lost
        operator.cache[name] = self.objects[name]
        if self.random.random() < 0.03:
            self.operator = None  # dies between two writes
            self.killed += 1
            return False
        return True
