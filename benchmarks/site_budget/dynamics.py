"""A site from its first job's start to its last job's end: jobs end, and their watts go to the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from powertrain.sharing import Demand
from powertrain.sharing.timing import ends_s

Sharing = Callable[[Sequence[Demand], float], dict[str, float]]
_MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class Course:
    """What came of it: the end of each job, the energy, the highest sum, and how often shares were made."""

    ends_s: dict[str, float]
    energy_j: float
    highest_w: float
    sharings: int

    @property
    def makespan_s(self) -> float:
        """Return the end of the last job."""
        return max(self.ends_s.values(), default=0.0)


def run(demands: Sequence[Demand], cap_w: float, sharing: Sharing, *, again: bool = True) -> Course:
    """Share, let time pass until the first job ends, and share again what is then free.

    Boards without a job draw their idle watts. `again=False` keeps the first shares until the end, as fixed limits per
    board would.
    """
    running, ends, energy_j, highest_w, now_s = list(demands), {}, 0.0, 0.0, 0.0
    shares = sharing(running, cap_w)
    for rounds in range(1, _MOST_ROUNDS):
        at = ends_s(running, shares)
        passed_s = min(end for end in at.values() if end is not None)
        if math.isinf(passed_s):
            return Course(ends | dict.fromkeys((d.name for d in running), math.inf), energy_j, highest_w, rounds)
        idle_w = sum(d.idle_w for d in demands if d.name in ends or not shares[d.name])
        drawn_w = idle_w + sum(shares[d.name] for d in running)
        highest_w, energy_j, now_s = max(highest_w, drawn_w), energy_j + drawn_w * passed_s, now_s + passed_s
        ends |= {name: now_s for name, end in at.items() if end is not None and end <= passed_s * (1 + 1e-9)}
        running = [_advanced(d, passed_s, at[d.name]) for d in running if d.name not in ends]
        if not running:
            return Course(ends, energy_j, highest_w, rounds)
        if again:
            shares = sharing(running, cap_w - sum(d.idle_w for d in demands if d.name in ends))
    raise RuntimeError("the site does not come to an end")


def _advanced(demand: Demand, passed_s: float, end_s: float | None) -> Demand:
    """Return a job with what it has left after so many seconds."""
    if demand.remaining is None or end_s is None or math.isinf(end_s):
        return demand
    return replace(demand, remaining=demand.remaining * (1 - passed_s / end_s))
