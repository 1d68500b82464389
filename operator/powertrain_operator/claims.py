"""Who gets which nodes: all or nothing, in the order of their turns; the best nodes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from powertrain_operator.node_view import Needs, NodeView


@dataclass(frozen=True)
class Applicant:
    """A job that waits for nodes; `order` is its place in the queue."""

    key: str
    order: int
    needs: Needs
    replicas: int
    # Only these nodes, where the job has to come back to what it had.
    only: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Rank:
    """How good a node is for a job; smaller is better."""

    without_profile: bool
    epoch_s: float
    weakness: float
    name: str

    def key(self) -> tuple[bool, float, float, str]:
        """Return what ranks are compared by: a reusable profile, then the time of an epoch, then the board's speed."""
        return (self.without_profile, self.epoch_s, self.weakness, self.name)


def first_of(applicant: str, ranked: Sequence[str], replicas: int) -> tuple[str, ...]:
    """Return the best nodes, whatever they cost."""
    return tuple(ranked[:replicas])


# Returns the nodes of an applicant out of those that are usable, the best first; none if it can't have them now.
Choose = Callable[[str, Sequence[str], int], tuple[str, ...]]


def assign(
    applicants: Iterable[Applicant],
    boards: Mapping[str, NodeView],
    busy: frozenset[str],
    could_run: Callable[[Applicant], frozenset[str]],
    rank: Callable[[str, NodeView], Rank],
    most: int,
    choose: Choose = first_of,
) -> dict[str, tuple[str, ...]]:
    """Return the nodes of the jobs that get them all now, of the first so many.

    A job that could run, but not yet, keeps every node that it could use from those behind it; one that can't run
    at all, or for which there is no power (`choose` gives it none), keeps nothing from anybody.
    """
    free = set(boards) - busy
    assignment: dict[str, tuple[str, ...]] = {}
    for applicant in sorted(applicants, key=lambda a: a.order):
        if not free or len(assignment) == most:
            break
        candidates = could_run(applicant)
        if applicant.only:
            candidates &= applicant.only
        usable = [name for name in candidates if name in free]
        if len(usable) >= applicant.replicas:
            ranked = sorted(usable, key=lambda name: rank(applicant.key, boards[name]).key())
            best = choose(applicant.key, ranked, applicant.replicas)
            if best:
                assignment[applicant.key] = best
                free -= set(best)
        elif len(candidates) >= applicant.replicas:
            free -= candidates
    return assignment
