"""The control attributes: every file that the agent may write, with its role, and the value a mode gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from powertrain import PowerMode
from powertrain_agent.hardware.board import Board, CorePolicy
from powertrain_agent.hardware.cpu import BOOT_CPU, online_path
from powertrain_agent.hardware.emc import EmcKind
from powertrain_agent.hardware.fan import MAX_PWM
from powertrain_agent.sysfs import Sysfs

ONLINE_GROUP, EMC_GROUP, FAN_GROUP = "cores", "emc", "fan"
_SWITCH = (0, 1)


class Role(StrEnum):
    """What an attribute does; the order of writes follows from it."""

    ONLINE = "online"
    MIN = "min"
    MAX = "max"
    EMC_CAP = "emc-cap"
    EMC_LOCK = "emc-lock"
    EMC_SWITCH = "emc-switch"
    EMC_RATE = "emc-rate"
    FAN = "fan"


@dataclass(frozen=True)
class Attribute:
    """One file. Attributes of one group are written together; `cpus` are those whose clock the group sets."""

    path: str
    role: Role
    group: str
    read_path: str = ""
    legal: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()

    @property
    def shown_at(self) -> str:
        """Return the file that shows the value in force."""
        return self.read_path or self.path

    @property
    def lowest(self) -> str:
        """Return the lowest legal value."""
        return str(self.legal[0]) if self.legal else ""

    def beside(self, value: str) -> tuple[str, ...]:
        """Return the legal values next to one: where a kernel that rounds may have put it."""
        if not self.legal or not value.isdigit():
            return ()
        below = [step for step in self.legal if step < int(value)]
        above = [step for step in self.legal if step > int(value)]
        return tuple(str(step) for step in (*below[-1:], *above[:1]))

    def active(self, online: frozenset[int]) -> bool:
        """Say whether the kernel takes writes: a policy needs one of its CPUs online."""
        return not self.cpus or not online.isdisjoint(self.cpus)


def controlled(board: Board, core_policy: CorePolicy) -> tuple[Attribute, ...]:
    """Return the attributes that modes may change on this board; knobs that can't be turned give none."""
    attributes: list[Attribute] = []
    if core_policy is CorePolicy.HOTPLUG and board.can("cores"):
        attributes += [Attribute(online_path(cpu), Role.ONLINE, ONLINE_GROUP) for cpu in board.cpu.switchable]
    if board.can("cpu"):
        for policy in board.cpu.policies:
            table = policy.table_khz or board.cpu.table_khz
            attributes.append(Attribute(policy.min_path, Role.MIN, policy.path, legal=table, cpus=policy.cpus))
            attributes.append(Attribute(policy.max_path, Role.MAX, policy.path, legal=table, cpus=policy.cpus))
    if board.gpu and board.can("gpu"):
        gpu = board.gpu
        attributes.append(Attribute(gpu.min_path, Role.MIN, gpu.path, legal=gpu.table_hz))
        attributes.append(Attribute(gpu.max_path, Role.MAX, gpu.path, legal=gpu.table_hz))
    return (*attributes, *_memory(board))


def _memory(board: Board) -> list[Attribute]:
    emc = board.emc
    if emc is None or not board.can("emc"):
        return []
    if emc.minimum:
        directory = emc.minimum.rpartition("/")[0]
        limits = ((emc.minimum, Role.MIN), (emc.rate_write, Role.MAX))
        return [Attribute(path, role, directory, legal=emc.table_hz) for path, role in limits]
    attributes = [Attribute(emc.cap, Role.EMC_CAP, EMC_GROUP, legal=emc.table_hz)] if emc.cap else []
    if emc.kind is not EmcKind.CAP and emc.lock:
        attributes.append(Attribute(emc.lock, Role.EMC_LOCK, EMC_GROUP, legal=_SWITCH))
        attributes += [Attribute(path, Role.EMC_SWITCH, EMC_GROUP, legal=_SWITCH) for path in emc.switches]
        rate = Attribute(emc.rate_write, Role.EMC_RATE, EMC_GROUP, read_path=emc.rate_read, legal=emc.table_hz)
        attributes.append(rate)
    return attributes


def fan_values(board: Board, sysfs: Sysfs) -> dict[Attribute, str]:
    """Return what sets the fan to its maximum: older releases need their own control switched off first."""
    if board.fan is None or not board.can("fan"):
        return {}
    values = {}
    control = board.fan.pwm_path.replace("/target_pwm", "/temp_control")
    if control != board.fan.pwm_path and sysfs.is_writable(control):
        values[Attribute(control, Role.FAN, FAN_GROUP)] = "0"
    values[Attribute(board.fan.pwm_path, Role.FAN, FAN_GROUP)] = str(MAX_PWM)
    return values


def values_for(
    board: Board, mode: PowerMode, attributes: tuple[Attribute, ...], originals: Mapping[str, str]
) -> dict[str, str]:
    """Return the value of each attribute in a mode, by path. The fan is no part of a mode."""
    values: dict[str, str] = {}
    on = set(cores_of(board, mode.cores))
    policies = {policy.path: policy for policy in board.cpu.policies}
    for attribute in attributes:
        match attribute.role:
            case Role.ONLINE:
                cpu = int(attribute.path.split("/cpu")[-1].split("/")[0])
                values[attribute.path] = "1" if cpu in on else "0"
            case Role.MIN | Role.MAX if policy := policies.get(attribute.group):
                table = policy.table_khz or board.cpu.table_khz
                step = max((khz for khz in table if khz <= mode.cpu_khz), default=table[0])
                values[attribute.path] = str(step)
            case Role.MIN | Role.MAX if board.emc and attribute.path in (board.emc.minimum, board.emc.rate_write):
                values[attribute.path] = str(mode.emc_hz)
            case Role.MIN | Role.MAX:
                values[attribute.path] = str(mode.gpu_hz)
            case Role.EMC_CAP:
                values[attribute.path] = _cap(board, mode.emc_hz, originals.get(attribute.path, "0"))
            case Role.EMC_LOCK | Role.EMC_SWITCH:
                values[attribute.path] = "1"
            case Role.EMC_RATE:
                values[attribute.path] = str(mode.emc_hz)
    return values


def cores_of(board: Board, count: int) -> tuple[int, ...]:
    """Return which CPUs a core count means; the boot CPU is always one of them."""
    others = [cpu for cpu in board.core_order if cpu != BOOT_CPU]
    return (BOOT_CPU, *others[: max(0, count - 1)])


def _cap(board: Board, emc_hz: int, original: str) -> str:
    """A lock only works below the cap, so a cap that is too low is raised, and one that is not stays."""
    if board.emc is not None and board.emc.kind is EmcKind.CAP:
        return str(emc_hz)
    enough = not original.isdigit() or int(original) == 0 or int(original) >= emc_hz
    return original if enough else str(emc_hz)
