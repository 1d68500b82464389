"""What the planner is asked: everything it must know of a session, as one request."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any
from zlib import crc32

from powertrain import ModeSpace
from powertrain.api.v1alpha1 import SessionSpec
from powertrain.objectives import ASSUMED_PEAK_FACTOR, Limits, Work
from powertrain.profiling.history import History, Told, peak_factor
from powertrain.profiling.problem import Aim, Problem
from powertrain.samples import Sample
from powertrain.session.storage import session_to_dict
from powertrain_agent.governor.events import Planned

NOISE = 0.005  # of a measured mode whose own is not known
AUTO = "auto"


def request(
    want: str,
    spec: SessionSpec,
    space: ModeSpace,
    reports: Sequence[Told],
    *,
    power_w: float | None,
    explore_w: float | None,
    hard_limit_w: float | None = None,
    strategy: str,
    device: str | None,
    descending_only: bool,
    extra: int = 0,
) -> dict[str, Any]:
    """Return a request with everything the planner must know."""
    limits = spec.limits.reckoned(power_w, hard_limit_w)
    work, history, elsewhere = spec.workload, History.of(space, reports, NOISE), _elsewhere(spec)
    # The planner reckons with means: readings lie above by what was seen of this workload at its worst.
    peaks = max([*map(peak_factor, elsewhere), history.peak_factor.max(initial=ASSUMED_PEAK_FACTOR)])
    tried = Limits(power_w=explore_w, power_statistic=limits.power_statistic, hard_limit_w=hard_limit_w)
    tried_w = float(tried.mean_power_w(peaks))
    problem = Problem(
        space,
        aim=Aim(spec.plan.aim.value),
        objective=spec.objective,
        limits=limits,
        work=Work(work.batch_size, work.samples_per_epoch, work.epochs),
        risk=spec.risk,
        explore_limit_w=tried_w if isfinite(tried_w) else None,
        explore_risk=spec.explore_risk,
        max_modes=spec.plan.max_modes,
        noise=NOISE,
        device=device,
        descending_only=descending_only,
        elsewhere=elsewhere,
        # The same after a restart, another for the next session: repeated jobs do not all try the same random modes.
        seed=crc32(spec.uid.encode()),
    )
    name = "transfer" if strategy == AUTO else strategy
    return {
        "want": want,
        "session": {**session_to_dict(problem, name, True, history), "pending": None},
        "limits": {**asdict(limits), "power_statistic": limits.power_statistic.value},
        "extra": extra,
    }


def _elsewhere(spec: SessionSpec) -> tuple[Sample, ...]:
    """Return what a profile knows of other batch sizes of the workload."""
    others = spec.prior.others if spec.prior is not None else ()
    samples = (sample for columns in others for sample in columns.samples())
    return tuple(s for s in samples if not s.unsafe and s.batch_size != spec.workload.batch_size)


class InlinePlanner:
    """Thinks in the caller's own process and delivers at once: for rehearsals in virtual time."""

    def __init__(self, deliver: Callable[[Planned], None], busy: Callable[[], bool] = lambda: False) -> None:
        """Deliver there; `busy` says whether the rehearsal's time to think is not over yet."""
        self._deliver, self._busy = deliver, busy

    @property
    def busy(self) -> bool:
        """Say whether an answer is still being thought about."""
        return self._busy()

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
