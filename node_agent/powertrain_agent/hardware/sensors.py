"""The power sensors: which rails a board measures, how each is read, and which make up the total."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from powertrain_agent.hardware.capability import Access, Capability
from powertrain_agent.hardware.files import optional
from powertrain_agent.sysfs import Sysfs, SysfsError

I2C = "/sys/bus/i2c/devices"
DRIVERS = "/sys/bus/i2c/drivers"
SUM_OF_RAILS = "sum"
_WHOLE_MODULE = ("VIN", "POM_5V_IN", "VDD_IN")  # the rails that feed everything else, as jetson-stats ranks them
_CHIP = re.compile(r"(ina3221|ina238)", re.IGNORECASE)


@dataclass(frozen=True)
class Rail:
    """One measured rail: a power file (with its scale to W), a voltage (mV) and a current (mA) file, or all three."""

    label: str
    power_path: str | None = None
    power_unit_w: float = 1e-3
    voltage_path: str | None = None
    current_path: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the files of one reading."""
        if self.power_path:
            return tuple(path for path in (self.power_path, self.voltage_path) if path)
        return tuple(path for path in (self.voltage_path, self.current_path) if path)

    def volts(self, texts: Mapping[str, str]) -> float | None:
        """Return the voltage that the texts of this rail's files say, None where it has no file for it."""
        return _float(texts, self.voltage_path) * 1e-3 if self.voltage_path else None

    def watts(self, texts: Mapping[str, str]) -> float:
        """Return the power that the texts of this rail's files say."""
        if self.power_path:
            return _float(texts, self.power_path) * self.power_unit_w
        if not (self.voltage_path and self.current_path):
            raise ValueError(f"rail {self.label} has neither a power file nor a voltage and a current file")
        return _float(texts, self.voltage_path) * _float(texts, self.current_path) * 1e-6


@dataclass(frozen=True)
class PowerSensors:
    """Every rail, and the name of the total: one rail's label, or "sum"; empty without a sensor."""

    rails: tuple[Rail, ...] = ()
    total: str = ""

    def total_rails(self) -> tuple[Rail, ...]:
        """Return the rails whose sum is the module's power."""
        return self.rails if self.total == SUM_OF_RAILS else tuple(r for r in self.rails if r.label == self.total)


def discover(sysfs: Sysfs, catalogue_total: str | None = None) -> PowerSensors:
    """Find the rails; the catalogue's total counts if the board has that rail."""
    rails = tuple(rail for chip in _chips(sysfs) for rail in _rails(sysfs, chip))
    if not rails:
        return PowerSensors()
    labels = [rail.label for rail in rails]
    if catalogue_total in (SUM_OF_RAILS, *labels):
        return PowerSensors(rails, catalogue_total or "")
    return PowerSensors(rails, next((name for name in _WHOLE_MODULE if name in labels), SUM_OF_RAILS))


def capability(sensors: PowerSensors) -> Capability:
    """Say whether power can be measured."""
    if not sensors.rails:
        reason = f"no INA3221 or INA238 below {I2C}: power budgets can't be kept on this board"
        return Capability("power", Access.MISSING, reason, unit="W")
    paths = tuple(path for rail in sensors.rails for path in rail.paths)
    names = ", ".join(rail.label for rail in sensors.rails)
    return Capability("power", Access.READ_ONLY, f"total = {sensors.total} (rails: {names})", paths, unit="W")


def _chips(sysfs: Sysfs) -> Iterator[str]:
    chips = set()
    for name in sysfs.list(I2C):
        if _CHIP.search(optional(sysfs, f"{I2C}/{name}/name") or ""):
            chips.add(name)
            yield f"{I2C}/{name}"
    for driver in sysfs.list(DRIVERS):
        if _CHIP.search(driver):
            for name in sysfs.list(f"{DRIVERS}/{driver}"):
                if re.fullmatch(r"\d+-[0-9a-f]{4}", name) and name not in chips:
                    yield f"{DRIVERS}/{driver}/{name}"


def _rails(sysfs: Sysfs, chip: str) -> Iterator[Rail]:
    for name in sysfs.list(f"{chip}/hwmon"):
        yield from _hwmon_rails(sysfs, f"{chip}/hwmon/{name}")
    for name in sysfs.list(chip):
        if name.startswith("iio:device"):
            yield from _iio_rails(sysfs, f"{chip}/{name}")


def _hwmon_rails(sysfs: Sysfs, path: str) -> Iterator[Rail]:
    files = set(sysfs.list(path))
    if "power1_input" in files and optional(sysfs, f"{path}/name") == "ina238":
        label = optional(sysfs, f"{path}/power1_label") or optional(sysfs, f"{path}/in1_label") or "VIN"
        # Linux' driver has the shunt's voltage as in0 and that of the bus as in1.
        volts = "in1_input" if "in1_input" in files else None
        yield Rail(
            label,
            power_path=f"{path}/power1_input",
            power_unit_w=1e-6,
            voltage_path=f"{path}/{volts}" if volts else None,
        )
        return
    for channel in range(1, 7):
        name = optional(sysfs, f"{path}/in{channel}_label") if f"in{channel}_label" in files else None
        volt, current = f"in{channel}_input", f"curr{channel}_input"
        if name and _is_rail(name) and {volt, current} <= files:
            yield Rail(name, voltage_path=f"{path}/{volt}", current_path=f"{path}/{current}")


def _iio_rails(sysfs: Sysfs, path: str) -> Iterator[Rail]:
    for channel in range(3):
        label = optional(sysfs, f"{path}/rail_name_{channel}")
        if not label or not _is_rail(label):
            continue
        voltage, current = f"{path}/in_voltage{channel}_input", f"{path}/in_current{channel}_input"
        if sysfs.exists(f"{path}/in_power{channel}_input"):
            voltage_path = voltage if sysfs.exists(voltage) else None
            yield Rail(label, power_path=f"{path}/in_power{channel}_input", voltage_path=voltage_path)
        else:
            yield Rail(label, voltage_path=voltage, current_path=current)


def _is_rail(label: str) -> bool:
    return "NC" not in label and "sum of" not in label


def _float(texts: Mapping[str, str], path: str) -> float:
    text = texts[path]
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        raise SysfsError(path, 22, f"understand {text!r} in") from None
