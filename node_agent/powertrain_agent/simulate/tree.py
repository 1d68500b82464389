"""Builds the file tree of a catalogue board: every file with the text it has right after boot."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from powertrain.devices import NOT_CONNECTED, Device, Preset
from powertrain_agent.simulate.layout import (
    BPMP,
    CPU,
    FAN_HWMON,
    FIRST_CHIP_HWMON,
    NVPMODEL_STATUS,
    OVER_CURRENT_HWMON,
    OVERRIDE,
    THOR_MASK,
    Layout,
)

GOVERNORS = "conservative ondemand userspace powersave performance schedutil"
GPU_GOVERNORS = "wmark_active wmark_simple nvhost_podgov userspace performance simple_ondemand"


def presets(device: Device) -> tuple[Preset, ...]:
    """Return the board's presets; one whose presets are not known has a single uncapped one."""
    return device.presets or (Preset(id=0, name="MAXN", cores=device.cores),)


def default_preset(device: Device) -> Preset:
    """Return the preset that allows most, the one a board should boot in (its masks switch nothing off)."""
    return max(presets(device), key=lambda preset: (device.preset_mode(preset), -preset.id))


def build(root: Path, layout: Layout, writable: Collection[str]) -> None:
    """Make every file and link that is missing below `root`; only the writable ones may be written by others."""
    directories: set[str] = set()
    for path, text in files(layout):
        target = f"{root}{path}"
        _make_parent(target, directories)
        try:
            mode = 0o644 if path in writable or path.endswith("/cpuset.cpus") else 0o444
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            continue
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
    for path, target_path in links(layout):
        link = f"{root}{path}"
        _make_parent(link, directories)
        if not os.path.islink(link):  # noqa: PTH114 (half of a test's time is spent here)
            os.symlink(os.path.relpath(f"{root}{target_path}", os.path.dirname(link)), link)  # noqa: PTH120, PTH211


def rewrite(target: Path, text: str) -> None:
    """Replace a file's text, also a read-only one's: root without capabilities can't open it for writing."""
    beside = target.with_name(f".{target.name}.new")
    beside.write_text(text, encoding="utf-8")
    if target.exists():
        beside.chmod(target.stat().st_mode & 0o777)
    beside.replace(target)


def _make_parent(target: str, directories: set[str]) -> None:
    parent = target.rpartition("/")[0]
    if parent not in directories:
        os.makedirs(parent, exist_ok=True)  # noqa: PTH103
        directories.add(parent)


def files(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield path and text of every file; what the kernel computes is filled in by the simulated kernel."""
    yield from _identity(layout)
    yield from _cpus(layout)
    yield from _gpu(layout)
    yield from _bpmp(layout) if layout.bpmp else _override(layout)
    yield from _bandwidth_manager(layout)
    yield layout.emc_cap, "0\n"
    yield from _power(layout)
    yield from _thermal(layout)
    yield from _fan(layout)
    yield from _host(layout)


def links(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield link and target, both below the root."""
    for policy, cpus in layout.policies.items():
        for cpu in cpus:
            yield f"{CPU}/cpu{cpu}/cpufreq", policy
    gpu_class = layout.device.tree.gpu_class
    yield f"/sys/class/devfreq/{gpu_class}", layout.devfreq
    yield f"{layout.devfreq}/device", layout.gpu
    if layout.nvgpu:
        yield ("/sys/devices/platform/gpu.0" if layout.l4t >= 36 else "/sys/devices/gpu.0"), layout.gpu
    if layout.bandwidth_manager:
        yield "/sys/class/devfreq/bwmgr", layout.bandwidth_manager
    if layout.l4t >= 34:
        if layout.nvgpu:
            yield f"{layout.gpu}/devfreq_dev", layout.devfreq
        yield f"/sys/class/hwmon/hwmon{FAN_HWMON}", layout.fan
    for directory in (*layout.zones, *layout.coolers):
        yield f"/sys/class/thermal/{directory.rpartition('/')[2]}", directory
    for index, chip in enumerate(layout.device.tree.chips):
        device = f"/sys/bus/i2c/devices/{chip.address}"
        yield f"/sys/bus/i2c/drivers/{chip.driver}/{chip.address}", device
        if layout.device.tree.power_driver == "hwmon":
            yield f"/sys/class/hwmon/hwmon{FIRST_CHIP_HWMON + index}", layout.chip_dir(chip)
    if layout.over_current:
        yield f"/sys/class/hwmon/hwmon{OVER_CURRENT_HWMON}", layout.over_current


def cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs in the kernel's list form, such as 0-3,6."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and spans[-1][1] == cpu - 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _lines(base: str, **values: object) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        yield f"{base}/{name}", f"{value}\n"


def _identity(layout: Layout) -> Iterator[tuple[str, str]]:
    device, tree = layout.device, layout.device.tree
    yield "/proc/device-tree/model", f"{tree.model}\0"
    yield "/proc/device-tree/compatible", "".join(f"{name}\0" for name in tree.compatible)
    board = "t186ref" if layout.l4t < 36 else "generic"
    yield "/etc/nv_tegra_release", f"# {tree.l4t_release}, GCID: 0, BOARD: {board}, EABI: aarch64, DATE: simulated\n"
    yield NVPMODEL_STATUS, "pmode:0000\n"
    yield "/etc/nvpmodel.conf", "".join(_nvpmodel_conf(device))
    yield "/proc/stat", "".join(f"{name} 1000 0 500 9000 0 0 0 0 0 0\n" for name in _stat_rows(device))


def _stat_rows(device: Device) -> list[str]:
    return ["cpu ", *(f"cpu{cpu}" for cpu in range(device.cores))]


def _nvpmodel_conf(device: Device) -> Iterator[str]:
    for preset in presets(device):
        yield f"< POWER_MODEL ID={preset.id} NAME={preset.name} >\n"
        for order, cpu in enumerate(device.core_order):
            yield f"CPU_ONLINE CORE_{cpu} {int(order < preset.cores)}\n"
        yield f"GPU MAX_FREQ {preset.gpu_hz or -1}\nEMC MAX_FREQ {preset.emc_hz or 0}\n"
    yield f"< PM_CONFIG DEFAULT={next((preset.id for preset in presets(device) if preset.default), 0)} >\n"


def _cpus(layout: Layout) -> Iterator[tuple[str, str]]:
    device = layout.device
    table = device.tables.cpu_khz.values
    everyone = cpu_list(range(device.cores))
    yield from _lines(CPU, present=everyone, possible=everyone, online=everyone, offline="")
    for cpu in range(device.cores):
        yield f"{CPU}/cpu{cpu}/online", "1\n"
        for state, name in enumerate(("WFI", "c7")):
            yield from _lines(f"{CPU}/cpu{cpu}/cpuidle/state{state}", name=name, disable=0)
    for policy, cpus in layout.policies.items():
        members = " ".join(str(cpu) for cpu in cpus)
        yield from _lines(
            policy,
            affected_cpus=members,
            related_cpus=members,
            cpuinfo_min_freq=table[0],
            cpuinfo_max_freq=table[-1],
            cpuinfo_cur_freq=table[0],
            scaling_available_frequencies=" ".join(str(khz) for khz in table) + " ",
            scaling_available_governors=("interactive " if layout.l4t < 34 else "") + GOVERNORS + " ",
            scaling_driver="tegra_cpufreq" if layout.device.soc in ("tegra210", "tegra186") else "tegra194",
            scaling_governor="schedutil",
            scaling_min_freq=device.tree.cpu_min_khz,
            scaling_max_freq=table[-1],
            scaling_cur_freq=table[0],
            scaling_setspeed="<unsupported>",
        )


def _gpu(layout: Layout) -> Iterator[tuple[str, str]]:
    tree, table = layout.device.tree, layout.device.tables.gpu_hz.values
    if layout.nvgpu:
        yield from _lines(layout.gpu, load=0, railgate_enable=1, tpc_pg_mask=0, fbp_pg_mask=0)
        if layout.l4t < 39:
            yield f"{layout.gpu}/enable_3d_scaling", "1\n"
        yield f"{layout.gpu}/power/control", "auto\n"
        yield f"{layout.gpu}/of_node/name", f"{tree.gpu_node}\0"
        yield f"{layout.gpu}/of_node/compatible", f"nvidia,{tree.gpu_node}\0"
    else:
        yield THOR_MASK, f"{default_preset(layout.device).gpu_mask or 0}\n"
        yield "/sys/bus/pci/devices/0000:01:00.0/power/control", "auto\n"
    yield from _lines(
        layout.devfreq,
        available_frequencies=" ".join(str(hz) for hz in table),
        available_governors=GPU_GOVERNORS,
        cur_freq=table[0],
        target_freq=table[0],
        min_freq=table[0],
        max_freq=table[-1],
        governor="nvhost_podgov",
        polling_interval=25,
        name=tree.gpu_class,
    )


def _bandwidth_manager(layout: Layout) -> Iterator[tuple[str, str]]:
    if layout.bandwidth_manager:
        table = layout.device.tables.emc_hz.values
        yield from _lines(
            layout.bandwidth_manager,
            available_frequencies=" ".join(map(str, table)),
            cur_freq=table[-1],
            min_freq=table[0],
            max_freq=table[-1],
            governor="performance",
            name="bwmgr",
        )


def _bpmp(layout: Layout) -> Iterator[tuple[str, str]]:
    table = layout.device.tables.emc_hz.values
    yield from _lines(layout.emc, rate=table[-1], min_rate=table[0], max_rate=table[-1], mrq_rate_locked=0, state=1)
    yield f"{BPMP}/emc/possible_rates", " ".join(str(hz // 1000) for hz in table) + " (kHz)\n"
    if layout.bwmgr_halt:
        yield layout.bwmgr_halt, "0\n"
    activity = "/sys/kernel/actmon_avg_activity/mc_all" if layout.l4t < 34 else "/sys/kernel/debug/cactmon/mc_all"
    yield activity, "0\n"


def _override(layout: Layout) -> Iterator[tuple[str, str]]:
    table = layout.device.tables.emc_hz.values
    yield from _lines(OVERRIDE, clk_rate=table[-1], clk_update_rate=table[-1], clk_state=0)
    yield from _lines("/sys/kernel/debug/tegra_bwmgr", emc_min_rate=table[0], emc_max_rate=table[-1])
    possible = " ".join(str(hz) for hz in table)
    yield from _lines("/sys/kernel/debug/clk/emc", clk_rate=table[-1], clk_possible_rates=possible)
    yield "/sys/kernel/actmon_avg_activity/mc_all", "0\n"


def _power(layout: Layout) -> Iterator[tuple[str, str]]:
    for chip in layout.device.tree.chips:
        device = f"/sys/bus/i2c/devices/{chip.address}"
        base = layout.chip_dir(chip)
        yield f"{device}/name", f"{chip.driver}\n"
        if chip.driver != "ina3221x":
            yield f"{base}/name", f"{chip.driver}\n"
        for channel, name in enumerate(chip.channels):
            if chip.driver == "ina3221x":
                yield from _iio_channel(base, channel, name)
            elif chip.driver == "ina238":
                yield from _lines(base, in1_label=name, in1_input=0, curr1_input=0, power1_input=0)
            else:
                yield from _hwmon_channel(base, channel + 1, name)
        if chip.driver == "ina3221":
            yield f"{base}/in7_label", "sum of shunt voltages\n"


def _iio_channel(base: str, channel: int, name: str) -> Iterator[tuple[str, str]]:
    yield f"{base}/rail_name_{channel}", f"{name}\n"
    if name == NOT_CONNECTED:
        return
    for kind in ("voltage", "current", "power"):
        yield f"{base}/in_{kind}{channel}_input", "0\n"
    for limit in ("warn", "crit"):
        yield f"{base}/{limit}_current_limit_{channel}", "32760 ma\n"


def _hwmon_channel(base: str, channel: int, name: str) -> Iterator[tuple[str, str]]:
    yield f"{base}/in{channel}_label", f"{name}\n"
    if name == NOT_CONNECTED:
        return
    yield f"{base}/in{channel}_input", "0\n"
    for suffix, value in (("input", 0), ("max", 32760), ("crit", 32760), ("max_alarm", 0), ("crit_alarm", 0)):
        yield f"{base}/curr{channel}_{suffix}", f"{value}\n"


def _thermal(layout: Layout) -> Iterator[tuple[str, str]]:
    for zone, name in layout.zones.items():
        yield from _lines(zone, type=name, temp=40000, trip_point_0_temp=99000, trip_point_0_type="passive")
    for directory, cooler in layout.coolers.items():
        yield from _lines(directory, type=cooler, cur_state=0, max_state=1)
    if layout.over_current:
        yield f"{layout.over_current}/name", "soctherm_oc\n"
        for alarm in (1, 2, 3):
            yield f"{layout.over_current}/oc{alarm}_event_cnt", "0\n"
            yield f"{layout.over_current}/oc{alarm}_throt_en", "1\n"


def _fan(layout: Layout) -> Iterator[tuple[str, str]]:
    if layout.l4t < 34:
        yield from _lines(layout.fan, target_pwm=80, cur_pwm=80, pwm_cap=255, temp_control=1, rpm_measured=2400)
    else:
        yield from _lines(layout.fan, name="pwmfan", pwm1=80)


def _host(layout: Layout) -> Iterator[tuple[str, str]]:
    everyone = cpu_list(range(layout.device.cores))
    if layout.cgroup_version == 1:
        for group in ("/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/cpuset/kubepods"):
            yield from _lines(group, **{"cpuset.cpus": everyone, "cpuset.effective_cpus": everyone})
    else:
        yield "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"
        yield from _lines("/sys/fs/cgroup/kubepods.slice", **{"cpuset.cpus": "", "cpuset.cpus.effective": everyone})
