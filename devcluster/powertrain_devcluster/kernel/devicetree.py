"""Turns a board of the catalogue into a device tree: QEMU's own for the machine, with the board's knobs added."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from powertrain.devices import NOT_CONNECTED, Device
from powertrain_devcluster.errors import BadInputError
from powertrain_devcluster.kernel.tools import Programs

MACHINE = "virt,gic-version=3"
PROCESSOR = "cortex-a76"
MEMORY_MIB = 1536
SHUNT_MICRO_OHMS = 5000
_CELLS = "#address-cells = <{}>; #size-cells = <{}>;"
_FAN_PERIOD_NS = 45334


def additions(device: Device) -> str:
    """The board as device-tree source that follows that of QEMU's machine."""
    buses = sorted({chip.address.partition("-")[0] for chip in device.tree.chips})
    lines = [
        "/ {",
        f'model = "{device.tree.model}";',
        f"compatible = {_strings((*device.tree.compatible, 'linux,dummy-virt'))};",
        "aliases { " + " ".join(f"i2c{bus} = &i2c{bus};" for bus in buses) + " };",
        *_cpu_clocks(device),
        *_gpu(device),
        *(_bandwidth_manager(device) if device.tree.bwmgr else ()),
        *(line for bus in buses for line in _sensors(device, bus)),
        *_board(device),
        "};",
        *_cpus(device),
    ]
    return "\n".join(lines) + "\n"


def compile_tree(device: Device, qemu: Programs, compiler: Programs, folder: Path) -> Path:
    """The board's device tree in binary form, in a folder of the caller's."""
    machine, source, target = folder / "virt.dtb", folder / "board.dts", folder / "board.dtb"
    arguments = ("-M", f"{MACHINE},dumpdtb={machine}", "-cpu", PROCESSOR, "-smp", str(device.cores))
    qemu.run("qemu-system-aarch64", *arguments, "-m", str(MEMORY_MIB), "-nographic", "-nodefaults")
    base = compiler.run("dtc", "-q", "-I", "dtb", "-O", "dts", machine)
    source.write_text(base + additions(device), encoding="utf-8")
    compiler.run("dtc", "-q", "-I", "dts", "-O", "dtb", "-o", target, source)
    return target


def _strings(words: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _table(label: str, rates_hz: Iterable[int], shared: bool) -> Iterator[str]:
    yield f'{label}: {label}-table {{ compatible = "operating-points-v2"; {"opp-shared;" if shared else ""}'
    yield from (f"opp-{hz} {{ opp-hz = /bits/ 64 <{hz}>; }};" for hz in rates_hz)
    yield "};"


def _cpu_clocks(device: Device) -> Iterator[str]:
    rates_hz = [khz * 1000 for khz in device.tables.cpu_khz.values]
    for number in range(len(device.clusters)):
        yield from _table(f"opp_cpu{number}", rates_hz, shared=True)
        yield f'clk_cpu{number}: clk-cpu{number} {{ compatible = "powertrain,clock"; #clock-cells = <0>;'
        yield f"rate-hz = /bits/ 64 <{rates_hz[-1]}>; }};"


def _cpus(device: Device) -> Iterator[str]:
    for number, cluster in enumerate(device.clusters):
        for cpu in cluster:
            body = f"clocks = <&clk_cpu{number}>; operating-points-v2 = <&opp_cpu{number}>;"
            yield f"&{{/cpus/cpu@{cpu}}} {{ {body} }};"


def _gpu(device: Device) -> Iterator[str]:
    """The GPU at its path: on a bus as R36 has it, or by a name directly below /sys/devices as R35 has it."""
    path, name = device.tree.gpu_path, device.tree.gpu_path.rpartition("/")[2]
    match = re.fullmatch(r"([0-9a-f]+)\.\w+", name)
    if match is None:
        raise BadInputError(f"{device.name}: no device tree gives a GPU at /sys/{path}")
    table = device.tables.gpu_hz.values
    yield from _table("opp_gpu", table, shared=False)
    node = f'{device.tree.gpu_node}@{match[1]} {{ compatible = "nvidia,{device.tree.gpu_node}", "powertrain,devfreq";'
    body = f"reg = <0x0 0x{match[1]} 0x0 0x1000>; powertrain,gpu; operating-points-v2 = <&opp_gpu>;"
    rate = f"rate-hz = /bits/ 64 <{table[0]}>;"
    root = "" if "/platform/" in path else f'powertrain,root-name = "{name}";'
    yield f'bus@0 {{ compatible = "simple-bus"; {_CELLS.format(2, 2)} ranges; {node} {body} {rate} {root} }}; }};'


def _bandwidth_manager(device: Device) -> Iterator[str]:
    table = device.tables.emc_hz.values
    yield from _table("opp_emc", table, shared=False)
    yield 'bwmgr { compatible = "powertrain,devfreq"; operating-points-v2 = <&opp_emc>;'
    yield f"rate-hz = /bits/ 64 <{table[-1]}>; }};"


def _sensors(device: Device, bus: str) -> Iterator[str]:
    yield f'i2c{bus}: powertrain-i2c-{bus} {{ compatible = "powertrain,i2c"; {_CELLS.format(1, 0)}'
    for chip in device.tree.chips:
        number, _, address = chip.address.partition("-")
        if number != bus or chip.driver == "ina238":
            continue
        yield f'power-sensor@{int(address, 16):x} {{ compatible = "ti,ina3221"; reg = <0x{address}>;'
        yield _CELLS.format(1, 0)
        for channel, rail in enumerate(chip.channels):
            body = f'label = "{rail}"; shunt-resistor-micro-ohms = <{SHUNT_MICRO_OHMS}>;'
            if rail == NOT_CONNECTED:
                body = 'status = "disabled";'
            yield f"input@{channel} {{ reg = <{channel}>; {body} }};"
        yield "};"
    yield "};"


def _board(device: Device) -> Iterator[str]:
    yield 'sensors: powertrain-board { compatible = "powertrain,board"; #thermal-sensor-cells = <1>; };'
    yield 'soctherm-oc-event { compatible = "powertrain,soctherm-oc"; };'
    yield 'fan_pwm: powertrain-pwm { compatible = "powertrain,pwm"; #pwm-cells = <3>; };'
    yield f'pwm-fan {{ compatible = "pwm-fan"; pwms = <&fan_pwm 0 {_FAN_PERIOD_NS} 0>;'
    yield "cooling-levels = <0 80 160 255>; };"
    yield "thermal-zones {"
    trip = 'trips { sw { temperature = <99000>; hysteresis = <2000>; type = "passive"; }; };'
    for number, zone in enumerate(device.tree.thermal_zones):
        yield f"{zone} {{ polling-delay = <0>; polling-delay-passive = <0>;"
        yield f"thermal-sensors = <&sensors {number}>; {trip} }};"
    yield "};"
