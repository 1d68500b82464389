"""The files whose text a simulated kernel computes when they are read: clocks, loads, sensors and counters."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from functools import partial

from powertrain_agent.simulate.dynamics import Instant
from powertrain_agent.simulate.layout import Layout, Rail

MEASURED_CPU_CLOCK = 0.985  # cpuinfo_cur_freq counts real cycles and reads a little low

Reading = Callable[[Instant], str]


def readings(layout: Layout) -> dict[str, Reading]:
    """Return, for each computed file, how its text follows from the instant."""
    renderers: dict[str, Reading] = {}
    for policy in layout.policies:
        renderers[f"{policy}/cpuinfo_cur_freq"] = lambda now: str(round(now.mode.cpu_khz * MEASURED_CPU_CLOCK))
        renderers[f"{policy}/scaling_cur_freq"] = lambda now: str(now.mode.cpu_khz)
    renderers[f"{layout.devfreq}/cur_freq"] = renderers[f"{layout.devfreq}/target_freq"] = lambda now: str(
        now.mode.gpu_hz
    )
    if layout.nvgpu:
        renderers[f"{layout.gpu}/load"] = lambda now: str(round(1000 * now.steady.gpu_share))
    rates = [f"{layout.emc}/rate"] if layout.bpmp else [f"{layout.emc}/clk_rate", "/sys/kernel/debug/clk/emc/clk_rate"]
    if layout.bandwidth_manager:
        rates.append(f"{layout.bandwidth_manager}/cur_freq")
    for rate in rates:
        renderers[rate] = lambda now: str(now.mode.emc_hz)
    for activity in ("/sys/kernel/actmon_avg_activity/mc_all", "/sys/kernel/debug/cactmon/mc_all"):
        renderers[activity] = lambda now: str(round(now.steady.memory_share * now.mode.emc_hz / 1000))
    for rail in layout.rails:
        renderers[rail.voltage] = partial(_millivolts, rail)
        renderers[rail.current] = partial(_milliamperes, rail)
        if rail.power is not None:
            renderers[rail.power] = partial(_power, rail)
    return renderers | _health(layout)


def _health(layout: Layout) -> dict[str, Reading]:
    renderers: dict[str, Reading] = {}
    for order, (zone, name) in enumerate(layout.zones.items()):
        renderers[f"{zone}/temp"] = partial(_millicelsius, order, name)
    for directory, cooler in layout.coolers.items():
        renderers[f"{directory}/cur_state"] = partial(_cooling, cooler)
    if layout.over_current:
        for alarm in (1, 2, 3):
            renderers[f"{layout.over_current}/oc{alarm}_event_cnt"] = partial(_events, alarm)
    return renderers


def _millivolts(rail: Rail, now: Instant) -> str:
    return str(rail.millivolts)


def _amperes(rail: Rail, now: Instant) -> float:
    """Return the current in the steps of the sensor, so that voltage × current and power agree."""
    return round(now.rail_w[rail.name] * 1e6 / rail.millivolts) / 1e3


def _milliamperes(rail: Rail, now: Instant) -> str:
    return str(round(_amperes(rail, now) * 1e3))


def _power(rail: Rail, now: Instant) -> str:
    return str(round(_amperes(rail, now) * rail.millivolts / 1e3 * rail.power_per_w))


def _millicelsius(order: int, name: str, now: Instant) -> str:
    gated = re.match(r"cv\d", name.lower()) or (name.lower().startswith("gpu") and not now.busy)
    if gated and now.world.layout.l4t >= 34:
        raise OSError(errno.EAGAIN, f"the block of {name} is switched off")
    return str(round(1000 * (now.celsius - 0.7 * order)) // 500 * 500)


def _cooling(cooler: str, now: Instant) -> str:
    return str(int(now.throttled and "soc" not in cooler))


def _events(alarm: int, now: Instant) -> str:
    return str(now.events(alarm))
