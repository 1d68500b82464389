"""When to restore and when to hold: the truth table, as a pure function. On doubt the board keeps the lower power."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from powertrain_agent.control.cgroups import PodCgroup

GRACE_S = 10.0  # a pod that is being replaced has no cgroup for some seconds
API_AWAY_S = 600.0  # longer than an API server's upgrade; by then the pods' absence has to be enough


class Action(StrEnum):
    """What to do with the job's mode."""

    HOLD = "hold"
    RESTORE = "restore"


@dataclass(frozen=True)
class Facts:
    """What is known. `power_node_gone` and `release_seen` keep their last known value while the API is away.

    A PowerNode that asks for no session, or for another one, counts as gone.
    """

    cgroup: PodCgroup
    absent_s: float  # how long no pod has had a cgroup, without a break
    api_away_s: float  # 0 while the API server answers
    power_node_gone: bool
    release_seen: bool
    lives: bool = False  # a pod that nobody named is on the host, or steps came in the last ten minutes
    site_limited: bool = False  # the site limits this board's power


@dataclass(frozen=True)
class Decision:
    """The action and its reason."""

    action: Action
    reason: str


def decide(facts: Facts) -> Decision:
    """Restore only if no pod of the session is on the host and somebody, or time, says that the session is over."""
    if facts.cgroup is PodCgroup.PRESENT:
        return Decision(Action.HOLD, "a pod of the session is on the host")
    if facts.cgroup is PodCgroup.UNREADABLE:
        return Decision(Action.HOLD, "the host's cgroups can't be read, so a pod may be running")
    if facts.absent_s < GRACE_S:
        return Decision(Action.HOLD, f"no pod for {facts.absent_s:.0f} s, less than {GRACE_S:.0f} s")
    if facts.release_seen:
        return Decision(Action.RESTORE, "the session was released")
    if facts.power_node_gone:
        return Decision(Action.RESTORE, "the PowerNode is gone or asks for another session")
    if facts.api_away_s < API_AWAY_S:
        return Decision(Action.HOLD, "no pod, but the session is not released")
    if facts.lives:
        return Decision(Action.HOLD, "no known pod, but a new one or its steps were seen while the API server is away")
    if facts.site_limited:
        return Decision(Action.HOLD, "no pod, but without the API server nothing else keeps the site's limit")
    return Decision(Action.RESTORE, f"no pod, and the API server has been away for {facts.api_away_s:.0f} s")
