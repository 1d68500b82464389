"""The kernel's rules for control attributes: what a write is answered with, and what a read then shows."""

from __future__ import annotations

import errno
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from powertrain.devices import Preset
from powertrain.modes import PowerMode
from powertrain_agent.simulate.layout import CPU, Layout
from powertrain_agent.simulate.tree import GOVERNORS, GPU_GOVERNORS, cpu_list

Requests = Mapping[str, int | str]


class Kind(Enum):
    """The families of control attributes."""

    ONLINE = auto()
    CPU_LIMIT = auto()
    GPU_LIMIT = auto()
    EMC_RATE = auto()
    EMC_CAP = auto()
    NUMBER = auto()
    WORD = auto()


@dataclass(frozen=True)
class Attribute:
    """One file that can be written: its family, its directory and the values that are legal."""

    kind: Kind
    base: str
    legal: tuple[int | str, ...] = ()
    lock: str | None = None  # the switch of the pair that must be on before the memory rate is taken


class KernelRules:
    """The rules of one board. Requests are what was last accepted; what is visible follows from them."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        tables = layout.device.tables
        self._cpu_table, self._gpu_table = tables.cpu_khz.values, tables.gpu_hz.values
        self._emc_table = tables.emc_hz.values
        self._policy_of = {cpu: policy for policy, cpus in layout.policies.items() for cpu in cpus}
        self._last_mode: dict[bool, tuple[Requests, PowerMode]] = {}  # requests are replaced as a whole, never changed
        self.attributes = self._attributes()

    def _attributes(self) -> dict[str, Attribute]:
        layout, attributes = self.layout, {}
        for cpu in range(layout.device.cores):
            attributes[f"{CPU}/cpu{cpu}/online"] = Attribute(Kind.ONLINE, f"{CPU}/cpu{cpu}", (0, 1))
            for state in (0, 1):
                attributes[f"{CPU}/cpu{cpu}/cpuidle/state{state}/disable"] = Attribute(Kind.NUMBER, "", (0, 1))
        governors = tuple(GOVERNORS.split()) + (("interactive",) if layout.l4t < 34 else ())
        for policy in layout.policies:
            attributes[f"{policy}/scaling_governor"] = Attribute(Kind.WORD, policy, governors)
            for bound in ("min", "max"):
                attributes[f"{policy}/scaling_{bound}_freq"] = Attribute(Kind.CPU_LIMIT, policy, self._cpu_table)
        for bound in ("min", "max"):
            attributes[f"{layout.devfreq}/{bound}_freq"] = Attribute(Kind.GPU_LIMIT, layout.devfreq, self._gpu_table)
        attributes[f"{layout.devfreq}/governor"] = Attribute(Kind.WORD, "", tuple(GPU_GOVERNORS.split()))
        if layout.nvgpu:
            attributes[f"{layout.gpu}/railgate_enable"] = Attribute(Kind.NUMBER, "", (0, 1))
            attributes[f"{layout.gpu}/power/control"] = Attribute(Kind.WORD, "", ("auto", "on"))
        if layout.bandwidth_manager:
            for bound in ("min", "max"):
                limit = Attribute(Kind.GPU_LIMIT, layout.bandwidth_manager, self._emc_table)
                attributes[f"{layout.bandwidth_manager}/{bound}_freq"] = limit
        attributes[layout.fan_pwm] = Attribute(Kind.NUMBER, "", tuple(range(256)))
        attributes[layout.emc_cap] = Attribute(Kind.EMC_CAP, "", self._emc_table)
        if layout.l4t < 34:
            attributes[f"{layout.fan}/temp_control"] = Attribute(Kind.NUMBER, "", (0, 1))
        return attributes | self._emc_attributes()

    def _emc_attributes(self) -> dict[str, Attribute]:
        switch = Attribute(Kind.NUMBER, "", (0, 1))
        rate = Attribute(Kind.EMC_RATE, self.layout.emc, self._emc_table, self.emc_lock)
        if not self.layout.bpmp:
            return {self.emc_rate: rate, self.emc_lock: switch}
        requests_of = {self.emc_rate: rate, self.emc_lock: switch, f"{self.layout.emc}/state": switch}
        return requests_of | ({self.layout.bwmgr_halt: switch} if self.layout.bwmgr_halt else {})

    @property
    def emc_rate(self) -> str:
        """Return the file to which the wanted memory clock is written."""
        return f"{self.layout.emc}/{'rate' if self.layout.bpmp else 'clk_update_rate'}"

    @property
    def emc_lock(self) -> str:
        """Return the switch that makes the written memory clock hold."""
        return f"{self.layout.emc}/{'mrq_rate_locked' if self.layout.bpmp else 'clk_state'}"

    def boot(self, preset: Preset) -> dict[str, int | str]:
        """Return the requests that nvpmodel leaves behind when the board boots in a preset."""
        device, requests = self.layout.device, {}
        for path, attribute in self.attributes.items():
            requests[path] = _BOOT.get(path.rsplit("/", 1)[-1], attribute.legal[0])
        requests[self.emc_rate] = self._emc_table[-1]
        if self.layout.bpmp:
            requests[f"{self.layout.emc}/state"] = 1
        return (
            requests
            | self.preset(preset)
            | {f"{p}/scaling_min_freq": device.tree.cpu_min_khz for p in self.layout.policies}
        )

    def preset(self, preset: Preset) -> dict[str, int | str]:
        """Return what nvpmodel writes for a preset: cores, clock limits and the memory cap."""
        device = self.layout.device
        mode = device.preset_mode(preset)
        on = set(device.core_order[: preset.cores])
        requests: dict[str, int | str] = {f"{CPU}/cpu{cpu}/online": int(cpu in on) for cpu in range(device.cores)}
        for policy in self.layout.policies:
            requests[f"{policy}/scaling_min_freq"] = device.tree.cpu_min_khz
            requests[f"{policy}/scaling_max_freq"] = mode.cpu_khz
        requests[f"{self.layout.devfreq}/min_freq"] = 0
        requests[f"{self.layout.devfreq}/max_freq"] = mode.gpu_hz
        uncapped = self._emc_table[-1] if self.layout.rounding_cap else 0
        requests[self.layout.emc_cap] = uncapped if preset.emc_hz is None else mode.emc_hz
        if self.layout.bandwidth_manager:
            requests[f"{self.layout.bandwidth_manager}/min_freq"] = 0
            requests[f"{self.layout.bandwidth_manager}/max_freq"] = mode.emc_hz
        return requests

    # What a write is answered with

    def accept(self, path: str, text: str, requests: Requests, emc_now_hz: int) -> dict[str, int | str]:
        """Return the requests that change, or raise the kernel's OSError."""
        attribute = self.attributes[path]
        if attribute.kind is Kind.WORD:
            if text not in attribute.legal:
                raise OSError(errno.EINVAL, f"{path} takes one of {', '.join(map(str, attribute.legal))}, not {text!r}")
            return {path: text}
        value = _number(path, text, attribute.kind)
        match attribute.kind:
            case Kind.ONLINE:
                return self._switch_cpu(path, value, requests)
            case Kind.CPU_LIMIT | Kind.GPU_LIMIT:
                return self._limit(path, value, attribute, requests)
            case Kind.EMC_RATE:
                return self._emc(path, value, requests)
            case Kind.EMC_CAP:
                return self._cap(path, value)
        if value not in attribute.legal:
            raise OSError(errno.EINVAL, f"{path} takes {attribute.legal[0]} to {attribute.legal[-1]}, not {value}")
        if path == self.emc_lock and self.layout.bpmp and value and not requests[path]:
            return {path: value, self.emc_rate: emc_now_hz}  # locking freezes the clock that runs
        return {path: value}

    def _switch_cpu(self, path: str, value: int, requests: Requests) -> dict[str, int | str]:
        if value not in (0, 1):
            raise OSError(errno.EINVAL, f"{path} takes 0 or 1, not {value}")
        cpu = int(path.removeprefix(f"{CPU}/cpu").removesuffix("/online"))
        if cpu == 0 and value == 0:
            raise OSError(errno.EPERM, "cpu0 can't go offline")
        policy = self._policy_of[cpu]
        alone = not any(requests[f"{CPU}/cpu{other}/online"] for other in self.layout.policies[policy] if other != cpu)
        change: dict[str, int | str] = {path: value}
        if alone and value and not requests[path] and not self.layout.device.tree.qos:
            # The old kernel builds the policy anew and forgets its limits.
            change[f"{policy}/scaling_min_freq"] = self.layout.device.tree.cpu_min_khz
            change[f"{policy}/scaling_max_freq"] = self._cpu_table[-1]
        return change

    def _limit(self, path: str, value: int, attribute: Attribute, requests: Requests) -> dict[str, int | str]:
        if value < 0:
            raise OSError(errno.EINVAL, f"{path} takes no negative number, not {value}")
        if attribute.kind is Kind.CPU_LIMIT:
            if not self._online(self.layout.policies[attribute.base], requests):
                code = errno.EBUSY if self.layout.l4t >= 36 else errno.EINVAL
                raise OSError(code, f"every CPU of {attribute.base} is offline")
            if not self.layout.device.tree.qos:
                value = _step(self._cpu_table, value, up="min" in path.rsplit("/", 1)[-1])
        elif self.layout.device.tree.qos:
            value = value // 1000 * 1000 if path.endswith("/min_freq") else -(-value // 1000) * 1000
        if not self.layout.device.tree.qos:
            self._ordered(path, value, requests)
        return {path: value}

    def _ordered(self, path: str, value: int, requests: Requests) -> None:
        is_min = "min" in path.rsplit("/", 1)[-1]
        other = path.replace("min_freq", "max_freq") if is_min else path.replace("max_freq", "min_freq")
        bound = int(requests[other])
        if value and bound and (value > bound if is_min else value < bound):
            side = "above the maximum" if is_min else "below the minimum"
            raise OSError(errno.EINVAL, f"{value} is {side} {bound}")

    def _emc(self, path: str, value: int, requests: Requests) -> dict[str, int | str]:
        if not self.layout.bpmp:
            return {path: _step(self._emc_table, value, up=True)}
        legal = value in self._emc_table and value <= self.emc_ceiling(requests)
        return {path: value} if legal and requests[self.emc_lock] else {}

    def _cap(self, path: str, value: int) -> dict[str, int | str]:
        return {path: _step(self._emc_table, value, up=False) if self.layout.rounding_cap else value}

    def lower(self, path: str, text: str) -> str:
        """Return the next lower legal value of an attribute (a kernel that rounds where it should not)."""
        legal = [value for value in self.attributes[path].legal if isinstance(value, int)]
        if not legal or not text.isdigit():
            return text
        return str(max((value for value in legal if value < int(text)), default=legal[0]))

    # What a read shows

    def visible(self, requests: Requests) -> dict[str, str]:
        """Return the text of every control attribute and of what the kernel derives from them."""
        texts = {path: str(value) for path, value in requests.items()}
        online = self.online(requests)
        everyone = range(self.layout.device.cores)
        texts[f"{CPU}/online"] = cpu_list(online)
        texts[f"{CPU}/offline"] = cpu_list(cpu for cpu in everyone if cpu not in online)
        for policy, cpus in self.layout.policies.items():
            texts[f"{policy}/affected_cpus"] = " ".join(str(cpu) for cpu in cpus if cpu in online)
            low, high = self._cpu_limits(policy, requests)
            texts[f"{policy}/scaling_min_freq"], texts[f"{policy}/scaling_max_freq"] = str(low), str(high)
        governed = {self.layout.devfreq: self.gpu_limits(requests)} if self.layout.device.tree.qos else {}
        if self.layout.bandwidth_manager:
            governed[self.layout.bandwidth_manager] = self._bandwidth(requests)
        for directory, (low, high) in governed.items():
            texts[f"{directory}/min_freq"], texts[f"{directory}/max_freq"] = str(low), str(high)
        texts[self.emc_rate] = str(self.emc_hz(requests) or requests[self.emc_rate])
        return texts

    def is_silent(self, path: str, requests: Requests) -> bool:
        """Say whether a file belongs to a policy without a CPU, which newer kernels do not even let be read."""
        cpus = self.layout.policies.get(path.rpartition("/")[0])
        return cpus is not None and self.layout.l4t >= 36 and not self._online(cpus, requests)

    def online(self, requests: Requests) -> list[int]:
        """Return the CPUs that are online."""
        return self._online(range(self.layout.device.cores), requests)

    def _online(self, cpus: range | tuple[int, ...], requests: Requests) -> list[int]:
        return [cpu for cpu in cpus if requests[f"{CPU}/cpu{cpu}/online"]]

    def _cpu_limits(self, policy: str, requests: Requests) -> tuple[int, int]:
        """Return what the two requests show: each is kept as it came, and rounded where it is shown.

        Where they leave no step (both between the same two), the kernel takes the step above.
        """
        bottom, top = self._cpu_table[0], self._cpu_table[-1]
        high = min(max(int(requests[f"{policy}/scaling_max_freq"]), bottom), top)
        low = min(int(requests[f"{policy}/scaling_min_freq"]), high)
        above = _step(self._cpu_table, low, up=True)
        if not low <= above <= high:
            high = _step(self._cpu_table, high, up=True)
        return above, _step(self._cpu_table, high, up=False)

    def gpu_limits(self, requests: Requests) -> tuple[int, int]:
        """Return the range of the GPU's clock that the two requests leave."""
        return _governed(self.layout.devfreq, self._gpu_table, requests)

    def _bandwidth(self, requests: Requests) -> tuple[int, int]:
        """Return the range of the memory clock that the bandwidth manager's requests leave."""
        directory = self.layout.bandwidth_manager
        return (
            _governed(directory, self._emc_table, requests) if directory else (self._emc_table[0], self._emc_table[-1])
        )

    def emc_ceiling(self, requests: Requests) -> int:
        """Return the highest memory clock under the cap."""
        cap = int(requests[self.layout.emc_cap]) or self._emc_table[-1]
        return _step(self._emc_table, min(cap, self._bandwidth(requests)[1]), up=False)

    def emc_hz(self, requests: Requests) -> int | None:
        """Return the locked memory clock, or None while the bandwidth manager chooses it."""
        if not requests[self.emc_lock]:
            return None
        return min(int(requests[self.emc_rate]), self.emc_ceiling(requests))

    def limit_mode(self, requests: Requests, *, top: bool) -> PowerMode:
        """Return the clocks a busy board runs at (top), or those it idles at; remembered for the last requests."""
        last = self._last_mode.get(top)
        if last is None or last[0] is not requests:
            last = self._last_mode[top] = (requests, self._limit_mode(requests, top))
        return last[1]

    def _limit_mode(self, requests: Requests, top: bool) -> PowerMode:
        online = self.online(requests)
        khz = [self._cpu_limits(self._policy_of[cpu], requests)[top] for cpu in online]
        gpu = _step(self._gpu_table, self.gpu_limits(requests)[top], up=False)
        ceiling = self.emc_ceiling(requests)
        # Left alone, the bandwidth manager runs a busy board's memory at the cap and an idle one's in the middle.
        idle = max(self._emc_table[len(self._emc_table) // 2], self._bandwidth(requests)[0])
        emc = self.emc_hz(requests) or (ceiling if top else min(ceiling, idle))
        return PowerMode(len(online), sum(khz) // len(khz), gpu, emc)


_BOOT: dict[str, int | str] = {
    "online": 1,
    "scaling_governor": "schedutil",
    "governor": "nvhost_podgov",
    "railgate_enable": 1,
    "target_pwm": 80,
    "pwm1": 80,
    "temp_control": 1,
}


def _number(path: str, text: str, kind: Kind) -> int:
    """Return the number in a text; limits of clocks take the first of several, as the kernel's sscanf does."""
    match = re.match(r"\s*([+-]?\d+)", text) if kind in (Kind.CPU_LIMIT, Kind.GPU_LIMIT) else None
    try:
        return int(match[1]) if match else int(text, 0 if text.lower().startswith("0x") else 10)
    except ValueError:
        raise OSError(errno.EINVAL, f"{path} takes a number, not {text!r}") from None


def _governed(directory: str, table: tuple[int, ...], requests: Requests) -> tuple[int, int]:
    """Return the range that the two requests of a devfreq device leave; 0 is no limit."""
    high = int(requests[f"{directory}/max_freq"]) or table[-1]
    low = max(int(requests[f"{directory}/min_freq"]), table[0])
    return min(low, high), high


def _step(table: tuple[int, ...], value: int, *, up: bool) -> int:
    """Return the ascending table's nearest value on one side, or its end."""
    place = bisect_left(table, value) if up else bisect_right(table, value) - 1
    return table[min(max(place, 0), len(table) - 1)]
