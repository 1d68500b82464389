"""The order of writes: which files are written in which sequence to reach a set of values, as values.

`sequence` is the only place that says it: the agent's moves and `restore.sh` both follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from powertrain_agent.control.attributes import EMC_GROUP, FAN_GROUP, ONLINE_GROUP, Attribute, Role

Write = tuple[str, str]
Groups = dict[str, list[Attribute]]


@dataclass(frozen=True)
class Step:
    """Writes that belong together, and the values their attributes must show afterwards."""

    name: str
    writes: tuple[Write, ...]
    expect: dict[Attribute, str]
    sets_clock: bool = False


class CoreStates(Protocol):
    """What the sequence asks of the board on its way: which CPUs run decides what takes a write."""

    def read(self, attributes: Iterable[Attribute]) -> dict[str, str | None]:
        """Return what each attribute shows, by path."""

    def online(self) -> frozenset[int]:
        """Return the CPUs that are online."""


Destination = tuple[tuple[Attribute, ...], Mapping[str, str]]  # attributes, and the values they should get by path


def sequence(
    board: CoreStates,
    destination: Destination,
    needed: set[str],
    after_cores_up: Callable[[], Destination] | None = None,
) -> Iterator[Step]:
    """Yield cores up, CPU, GPU and memory clocks, cores down, the fan; a step is planned after the last was written.

    Cores come first, because a policy without an online CPU takes no writes, and go last for the same reason. The fan
    follows them: how it is set matters to no clock.
    """
    attributes, target = destination
    groups = _by_group(attributes)
    if step := _cores_up(groups, target, board.read(groups.get(ONLINE_GROUP, [])), needed):
        yield step
        if after_cores_up:
            attributes, target = after_cores_up()
            groups = _by_group(attributes)
    yield from _clocks(groups, target, board.online())
    if step := _cores_down(groups, target, board.read(groups.get(ONLINE_GROUP, []))):
        yield step
    if step := _fan(groups, target):
        yield step


def _by_group(attributes: tuple[Attribute, ...]) -> Groups:
    """Return the attributes of each group, groups in order of first appearance."""
    groups: Groups = {}
    for attribute in attributes:
        groups.setdefault(attribute.group, []).append(attribute)
    return groups


def _cores_up(
    groups: Groups, target: Mapping[str, str], now: Mapping[str, str | None], needed: set[str]
) -> Step | None:
    """Bring CPUs online that shall be, and those that must be for a while so that their policy takes writes."""
    cores = groups.get(ONLINE_GROUP, [])
    up = [core for core in cores if now.get(core.path) != "1" and (target.get(core.path) == "1" or core.path in needed)]
    return Step("cores up", tuple((core.path, "1") for core in up), dict.fromkeys(up, "1")) if up else None


def _cores_down(groups: Groups, target: Mapping[str, str], now: Mapping[str, str | None]) -> Step | None:
    """Take CPUs offline that shall be."""
    cores = groups.get(ONLINE_GROUP, [])
    down = [core for core in cores if target.get(core.path) == "0" and now.get(core.path) != "0"]
    return Step("cores down", tuple((core.path, "0") for core in down), dict.fromkeys(down, "0")) if down else None


def _clocks(groups: Groups, target: Mapping[str, str], online: frozenset[int]) -> list[Step]:
    """Set CPU, GPU and memory clocks, in that order; policies without an online CPU take no writes."""
    steps = []
    for name, members in groups.items():
        aimed = [member for member in members if member.path in target]
        if not aimed or name in (ONLINE_GROUP, FAN_GROUP):
            continue
        if name == EMC_GROUP:
            steps.append(_memory(aimed, target))
        elif all(member.active(online) for member in aimed):
            steps.append(_limits(name, aimed, target))
    return steps


def _fan(groups: Groups, target: Mapping[str, str]) -> Step | None:
    """Set the fan's files."""
    members = [member for member in groups.get(FAN_GROUP, []) if member.path in target]
    expect = {member: target[member.path] for member in members}
    return Step(FAN_GROUP, tuple((member.path, value) for member, value in expect.items()), expect) if members else None


def _limits(name: str, members: list[Attribute], target: Mapping[str, str]) -> Step:
    """Lower the minimum first: then the maximum may go anywhere, on strict kernels and on others."""
    writes: list[Write] = []
    low = [member for member in members if member.role is Role.MIN]
    writes += [(member.path, member.lowest) for member in low]
    writes += [(member.path, target[member.path]) for member in members if member.role is Role.MAX]
    writes += [(member.path, target[member.path]) for member in low]
    return Step(name, tuple(writes), {member: target[member.path] for member in members}, sets_clock=True)


def _memory(members: list[Attribute], target: Mapping[str, str]) -> Step:
    """Lock or unlock. The rate is told before the lock (old override clock) and after it (BPMP ignores it before)."""

    def of(role: Role) -> list[Write]:
        return [(member.path, target[member.path]) for member in members if member.role is role]

    locked = any(value == "1" for _, value in of(Role.EMC_LOCK))
    rate = of(Role.EMC_RATE) if locked else []
    limits = [int(value) for _, value in of(Role.EMC_CAP) if value.isdigit()]
    room = not limits or limits[0] == 0 or not rate or limits[0] >= int(rate[0][1])
    cap_first, cap_last = (of(Role.EMC_CAP), []) if room else ([], of(Role.EMC_CAP))
    writes = [*cap_first, *rate, *of(Role.EMC_LOCK), *of(Role.EMC_SWITCH), *rate, *cap_last]
    skip = () if locked and room else (Role.EMC_RATE,)
    expect = {m: target[m.path] for m in members if m.role not in skip}
    return Step(EMC_GROUP, tuple(writes), expect, sets_clock=True)
