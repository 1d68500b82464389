"""Who gets which nodes: all or nothing, in the order of their turns; the best nodes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from powertrain_operator.node_view import Needs, NodeView

# Nodes that are named with those who hold them; each change of the words is a write for every job that waits.
MAX_NAMED = 5


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


@dataclass(frozen=True)
class Waiting:
    """What a job waits for, in words; `turn`: only its turn, `held_up`: others have the nodes that it could have."""

    words: str
    turn: bool = False
    held_up: bool = False


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


def why_waiting(
    applicant: Applicant, boards: Sequence[NodeView], busy: Mapping[str, str], unfit: Callable[[NodeView], str]
) -> Waiting:
    """Return what a job waits for."""
    reasons = {board.name: unfit(board) for board in boards}
    fitting = [name for name, reason in reasons.items() if not reason]
    if applicant.only:
        missing = sorted(name for name in applicant.only if reasons.get(name, "gone"))
        if missing:
            words = ", ".join(f"{name} ({reasons.get(name, 'there is no such node')})" for name in missing)
            return Waiting(f"waits for its own node to come back: {words}; allowMove would let it go elsewhere")
    if len(fitting) < applicant.replicas:
        if not boards:
            return Waiting("no Jetson has joined: is the agent's DaemonSet running?")
        listed = "; ".join(f"{name}: {reason}" for name, reason in sorted(reasons.items()) if reason)
        return Waiting(f"needs {applicant.replicas} nodes, {len(fitting)} could run it ({listed})"[:1000])
    busy_words = sorted(f"{name} by {busy[name]}" for name in fitting if name in busy)
    more = f" and {len(busy_words) - MAX_NAMED} more" if len(busy_words) > MAX_NAMED else ""
    words = f"waits for its turn: {', '.join(busy_words[:MAX_NAMED]) or 'other jobs come first'}{more}"[:1000]
    return Waiting(words, turn=True, held_up=len(fitting) - len(busy_words) < applicant.replicas)
