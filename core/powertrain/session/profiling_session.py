"""ProfilingSession: ask for a mode, tell what was measured, choose; the same object for agent, command line and
evaluator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from powertrain.choosing import Choice
from powertrain.modes import PowerMode
from powertrain.objectives import Limits
from powertrain.prediction import Prediction
from powertrain.profiling.belief import Belief
from powertrain.profiling.history import History, ModeReport, PowerEstimate
from powertrain.profiling.problem import Problem
from powertrain.profiling.safety import reachable_rows, refused_upward, safe_rows
from powertrain.samples import Sample
from powertrain.session import storage
from powertrain.session.descending import descending_chain
from powertrain.space import BoolArray, IntArray, ModeSpace
from powertrain.strategies import build
from powertrain.strategies.base import ChecksInFlight, HasBelief, HasPhysics, Proposal, Strategy

# So many modes in a row that can't be measured are a broken board, not bad luck.
MAX_FAILURES = 8


@dataclass(frozen=True, slots=True)
class Ask:
    """A mode to measure next, why, and what it is expected to cost."""

    mode: PowerMode
    reason: str
    cost_s: float | None = None
    # What its power is expected to be, where a model has an opinion.
    power_w: float | None = None
    power_std_w: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """No further mode is worth measuring, and why."""

    reason: str


class ProfilingSession:
    """Plans one mode at a time and learns from each. Serialisable between any two calls; deterministic for a problem
    and its reports.
    """

    def __init__(
        self, problem: Problem, strategy: str = "transfer", reference: HasPhysics | None = None, filtered: bool = True
    ) -> None:
        """Start a session; `filtered=False` (evaluations only) lets a strategy propose modes that are not known to be
        safe.
        """
        self.problem = problem
        self.strategy_name = strategy
        self.reference = reference
        self.filtered = filtered
        self.history = History.of(problem.space, default_noise=problem.noise)
        self._pending: PowerMode | None = None

    @cached_property
    def strategy(self) -> Strategy:
        """Return the strategy's object, rebuilt when the space changes."""
        return build(self.strategy_name, self.problem, self.reference)

    @cached_property
    def _belief(self) -> Belief:
        if isinstance(self.strategy, HasBelief):
            return self.strategy.belief
        return Belief(self.problem, None if self.reference is None else self.reference.physics)

    @property
    def max_modes(self) -> int:
        """Return how many modes this session measures at most."""
        requested_modes = self.problem.max_modes
        limit = self.strategy.default_max_modes if requested_modes is None else requested_modes
        return len(self.problem.space) if limit is None else min(limit, len(self.problem.space))

    @property
    def measured(self) -> int:
        """Return how many reports were measurements."""
        return self.history.measured

    def ask(self) -> Ask | Done:
        """Return the next mode to measure, or why there is none. Asking again without telling gives the same answer."""
        if self._pending is not None:
            return Ask(self._pending, "still waiting for this one")
        finished = self._finished()
        if finished:
            return Done(finished)
        proposal = self._descending_proposal() if self.problem.descending_only else self._proposal()
        if isinstance(proposal, Done):
            return proposal
        if proposal.gain is not None and proposal.gain < self.problem.min_gain:
            return Done(f"the next mode is expected to gain only {proposal.gain:.2%}")
        return self._ask_for(proposal)

    def ask_check(self, limits: Limits) -> Ask | Done:
        """Return a mode worth an in-flight check under these limits while training runs."""
        if not isinstance(self.strategy, ChecksInFlight) or not len(self.history.modes):
            return Done(f"strategy {self.strategy_name!r} has no in-flight checks")
        proposal = self.strategy.check(self.history, limits, self._allowed_rows())
        return Done("no unmeasured mode promises to be better") if proposal is None else self._ask_for(proposal)

    def tell(
        self, sample: Sample, noise: float | None = None, power_noise: float | None = None, left_early: bool = False
    ) -> None:
        """Record a measurement. It may be of another mode than the asked one (clocks that were not applied); both
        count as visited. `power_noise` is the power's own noise where it differs from that of the step time.
        """
        self._add(ModeReport(sample.mode, self._pending, sample, noise, power_noise=power_noise, left_early=left_early))

    def tell_power(self, mode: PowerMode, power_w: float, noise: float) -> None:
        """Record where a mode's power settles, from a visit that was too short to time its steps."""
        self._add(ModeReport(mode, self._pending, power_only=PowerEstimate(power_w, noise), left_early=True))

    def _add(self, report: ModeReport) -> None:
        self.history = self.history.add(report)
        self._pending = None

    def tell_failed(self, mode: PowerMode, reason: str) -> None:
        """Record that a mode could not be measured; it is not asked for again."""
        self._add(ModeReport(mode, self._pending, failure=reason))

    def shrink(self, space: ModeSpace) -> None:
        """Go on with fewer modes (a knob became unusable); what was measured still teaches."""
        self.problem = replace(self.problem, space=space)
        self.history = self.history.within(space)
        if self._pending is not None and self._pending not in space:
            self._pending = None
        for cached in ("strategy", "_belief", "_chain"):
            self.__dict__.pop(cached, None)

    def predict(self) -> Prediction | None:
        """Return time and power of every mode as the strategy predicts them."""
        return self.strategy.predict(self.history)

    def choose(self, limits: Limits | None = None) -> Choice:
        """Return the choice under the given limits, by default the problem's."""
        choice = self.strategy.select(self.history, self.problem.limits if limits is None else limits)
        if choice.row is None:
            return choice
        refusal = refused_upward(self.problem, self.history, self.problem.space[choice.row])
        return choice if refusal is None else replace(choice, reason=f"{choice.reason}; {refusal}")

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as JSON-ready values."""
        state = storage.session_to_dict(self.problem, self.strategy_name, self.filtered, self.history.reports)
        return {**state, "pending": None if self._pending is None else str(self._pending)}

    @classmethod
    def from_dict(cls, state: dict[str, Any], reference: HasPhysics | None = None) -> ProfilingSession:
        """Rebuild a session that goes on exactly where `to_dict` left it, given the same reference."""
        problem, strategy, filtered, reports = storage.session_from_dict(state)
        session = cls(problem, strategy, reference, filtered)
        session.history = History.of(problem.space, reports, problem.noise)
        session._pending = None if state["pending"] is None else PowerMode.parse(state["pending"])
        return session

    def _finished(self) -> str | None:
        rules = self.problem.ledger_rules
        early = 0 if rules is None else self.history.left_early
        whole = sum(report.sample is not None and not report.left_early for report in self.history.reports)
        if whole + (0.0 if rules is None else rules.early_cost * early) >= self.max_modes:
            return f"{self.measured} modes measured, as many as requested"
        failures = [report for report in self.history.reports[-MAX_FAILURES:] if report.failure]
        if len(failures) == MAX_FAILURES:
            return f"the last {MAX_FAILURES} modes could not be measured; the last because: {failures[-1].failure}"
        return None

    def _allowed_rows(self) -> BoolArray:
        allowed = ~self.history.visited & reachable_rows(self.problem, self.history)
        if self.filtered and allowed.any():
            allowed &= safe_rows(self.problem, self._belief, self.history)
        return allowed

    def _proposal(self) -> Proposal | Done:
        allowed = self._allowed_rows()
        if not allowed.any():
            return Done(self._why_none())
        return self.strategy.propose(self.history, allowed) or Done(
            f"strategy {self.strategy_name!r} needs no further mode"
        )

    def _why_none(self) -> str:
        if self.history.visited.all():
            return "every mode was visited"
        limit = self.problem.explore_limit_w
        return "no further mode is reachable" if limit is None else f"no further mode is safe within {limit:g} W"

    @cached_property
    def _chain(self) -> IntArray:
        return descending_chain(self.problem.space, self.max_modes, ~self.history.visited, self.problem.seed)

    def _descending_proposal(self) -> Proposal | Done:
        allowed = self._allowed_rows()
        for position, row in enumerate(self._chain):
            if allowed[row]:
                return Proposal(
                    int(row), f"mode {position + 1} of one descending batch: this board only lowers its clocks"
                )
        return Done("the descending batch is through; anything else would raise a clock, which this board refuses")

    def _ask_for(self, proposal: Proposal) -> Ask:
        self._pending = self.problem.space[proposal.row]
        power_w, power_std_w = self._expected_power(proposal.row)
        return Ask(self._pending, proposal.reason, self._cost_s(proposal.row), power_w, power_std_w)

    def _expected_power(self, row: int) -> tuple[float | None, float | None]:
        if self.problem.ledger_rules is None or not len(self.history.modes):
            return None, None
        posterior = self._belief.posterior(self.history)
        return float(posterior.power_w[row]), float(posterior.power_std_w[row])

    def _cost_s(self, row: int) -> float | None:
        if not isinstance(self.strategy, HasBelief) or not len(self.history.modes):
            return None
        return float(np.asarray(self.problem.cost.seconds(float(self._belief.prediction(self.history).time_s[row]))))
