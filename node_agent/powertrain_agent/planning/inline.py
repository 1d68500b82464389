"""A planner without a process: answers in the caller's own, for simulations in virtual time."""

from __future__ import annotations

from collections.abc import Callable

from powertrain_agent.planning.codec import answer_from_line, answer_to_line, request_from_line, request_to_line
from powertrain_agent.planning.messages import Planned, PlanRequest


class InlinePlanner:
    """Answers at once; requests and answers take the same way over lines of JSON as those of the child process."""

    def __init__(self, deliver: Callable[[Planned], None], busy: Callable[[], bool] = lambda: False) -> None:
        """Deliver there; `busy` says whether the simulated time of a fit is not over yet."""
        self._deliver, self._busy = deliver, busy

    @property
    def busy(self) -> bool:
        """Say whether a fit still runs in simulated time."""
        return self._busy()

    def submit(self, number: int, request: PlanRequest) -> None:
        """Answer a request."""
        from powertrain_agent.planning.answering import answer_or_failure

        answer = answer_or_failure(request_from_line(request_to_line(request)))
        self._deliver(Planned(number, answer_from_line(answer_to_line(answer))))

    def rest(self) -> None:
        """Nothing is held."""
