"""The planner's side that waits: sends a session to a low-priority process and hands on its answer when it comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from powertrain import ModeSpace
from powertrain.api.v1alpha1 import SessionSpec
from powertrain.objectives import Limits, Work
from powertrain.profiling.history import History, Told
from powertrain.profiling.problem import Aim, Problem
from powertrain.session.storage import session_to_dict
from powertrain_agent.governor.events import Planned

NOISE = 0.005  # of a measured mode whose own is not known
AUTO = "auto"


def limits_of(spec: SessionSpec, power_w: float | None) -> Limits:
    """Return the envelope's limits with the power limit of this moment."""
    limits = spec.limits
    return Limits(
        power_w=power_w,
        power_statistic=limits.power_statistic,
        hard_limit_w=limits.hard_limit_watts,
        epoch_s=limits.epoch_seconds,
        training_s=limits.training_seconds,
        energy_per_epoch_j=limits.energy_joules_per_epoch,
        energy_j=limits.energy_joules,
    )


def request(
    want: str,
    spec: SessionSpec,
    space: ModeSpace,
    reports: Sequence[Told],
    *,
    power_w: float | None,
    explore_w: float | None,
    strategy: str,
    device: str | None,
    descending_only: bool,
    extra: int = 0,
) -> dict[str, Any]:
    """Return a request with everything the planner must know."""
    limits = limits_of(spec, power_w)
    work = spec.workload
    problem = Problem(
        space,
        aim=Aim(spec.plan.aim.value),
        objective=spec.objective,
        limits=limits,
        work=Work(work.batch_size, work.samples_per_epoch, work.epochs),
        risk=spec.risk,
        explore_limit_w=explore_w,
        explore_risk=spec.explore_risk,
        max_modes=spec.plan.max_modes,
        noise=NOISE,
        device=device,
        descending_only=descending_only,
    )
    name = "transfer" if strategy == AUTO else strategy
    return {
        "want": want,
        "session": {**session_to_dict(problem, name, True, History.of(space, reports, NOISE)), "pending": None},
        "limits": {**asdict(limits), "power_statistic": limits.power_statistic.value},
        "extra": extra,
    }


class PlannerProcess:
    """A child process that lives from a request until nothing is asked for any more."""

    def __init__(self, deliver: Callable[[Planned], None]) -> None:
        self._deliver = deliver
        self._process: subprocess.Popen[str] | None = None

    def submit(self, number: int, request: dict[str, Any]) -> None:
        """Send a request; a thread waits for its answer."""
        process = self._alive()
        threading.Thread(target=self._exchange, args=(process, number, request), name="planner", daemon=True).start()

    def rest(self) -> None:
        """Let the process end."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()

    def _alive(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            # numpy's thread pools would take the cores that the training needs.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "powertrain_agent.governor.fits"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        return self._process

    def _exchange(self, process: subprocess.Popen[str], number: int, request: dict[str, Any]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            reply: dict[str, Any] = {"answer": {}, "error": "the planner's process ended"}
            if line:
                reply = json.loads(line)
        except (OSError, ValueError) as error:
            reply = {"answer": {}, "error": f"the planner's process failed: {error}"}
        self._deliver(Planned(number, reply["answer"], reply["error"]))


class InlinePlanner:
    """Thinks in the caller's own process and delivers at once: for rehearsals in virtual time."""

    def __init__(self, deliver: Callable[[Planned], None]) -> None:
        self._deliver = deliver

    def submit(self, number: int, request: dict[str, Any]) -> None:
        """Answer a request."""
        from io import StringIO

        from powertrain_agent.governor.fits import serve

        replies = StringIO()
        serve(StringIO(json.dumps(request)), replies)
        reply = json.loads(replies.getvalue())
        self._deliver(Planned(number, reply["answer"], reply["error"]))

    def rest(self) -> None:
        """Nothing is held."""
