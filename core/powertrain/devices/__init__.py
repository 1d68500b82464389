"""The device catalogue: what is known of each Jetson board, read from the TOML files beside this module."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from powertrain.modes import PowerMode

if TYPE_CHECKING:
    from powertrain.space import ModeSpace

SUM_OF_RAILS = "sum"
NOT_CONNECTED = "NC"


class UnknownDeviceError(KeyError):
    """A board that the catalogue does not hold; the message lists those it does."""

    def __str__(self) -> str:
        return str(self.args[0])


class DeviceFileError(ValueError):
    """A catalogue file that can't be read; the message names the file and the field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Table(_Strict):
    """The legal values of one knob, whether they were seen in full in a source, and which."""

    values: tuple[Annotated[int, Field(gt=0)], ...] = Field(min_length=1)
    certain: bool
    source: str


class Preset(_Strict):
    """One of NVIDIA's nvpmodel modes; a missing cap means uncapped."""

    id: int
    name: str
    watts: float | None = None  # the label; None for MAXN
    cores: int
    cpu_khz: int | None = None
    gpu_hz: int | None = None
    emc_hz: int | None = None
    default: bool = False
    gpu_mask: int | None = Field(
        default=None, description="parts of the GPU that are off; a change from one mask to another needs a reboot"
    )


class Tables(_Strict):
    """The three frequency tables of a board."""

    cpu_khz: Table
    gpu_hz: Table
    emc_hz: Table


class Sensors(_Strict):
    """Power rails in the order of their channels, and how the module's total follows from them."""

    rails: tuple[str, ...]
    total: str = Field(description="the rail that measures the whole module, or 'sum'")
    certain: bool
    source: str


class Chip(_Strict):
    """One power monitor on the i2c bus; a channel without a rail is called NC."""

    address: str = Field(pattern=r"^\d+-00[0-9a-f]{2}$", description="bus and address as in /sys/bus/i2c/devices")
    driver: Literal["ina3221", "ina3221x", "ina238"]
    channels: tuple[str, ...] = Field(min_length=1, max_length=3)


class Tree(_Strict):
    """What the board's /proc and /sys look like on one release, to rebuild them; a real board is discovered."""

    model: str = Field(description="/proc/device-tree/model")
    compatible: tuple[str, ...] = Field(min_length=1, description="/proc/device-tree/compatible")
    l4t_release: str = Field(pattern=r"^R\d+ \(release\), REVISION: \d+\.\d+$")
    gpu_path: str = Field(pattern=r"^devices/", description="the GPU's directory below /sys")
    gpu_class: str = Field(description="its name in /sys/class/devfreq")
    gpu_node: str = Field(default="", description="its device-tree node's name; Thor's GPU has none")
    qos: bool = Field(description="false: a minimum above the maximum is refused (kernel 4.9); true: it is clamped")
    emc: Literal["bpmp", "override"]
    emc_cap: str = Field(pattern=r"^kernel/", description="the file of the memory clock's cap below /sys")
    bwmgr: bool = Field(
        default=False, description="whether /sys/class/devfreq/bwmgr governs the memory clock (R39, and Thor)"
    )
    power_driver: Literal["hwmon", "iio"]
    chips: tuple[Chip, ...] = Field(min_length=1)
    thermal_zones: tuple[str, ...] = Field(min_length=1)
    cpu_min_khz: int = Field(description="scaling_min_freq as the board boots")


class SubGrid(_Strict):
    """The part of the grid that the papers' authors measured."""

    cores: tuple[int, ...]
    cpu_khz: tuple[int, ...]
    gpu_hz: tuple[int, ...]
    emc_hz: tuple[int, ...]
    source: str


class Device(_Strict):
    """A board of the catalogue."""

    name: str
    title: str
    soc: str
    modules: tuple[str, ...]
    l4t: str = Field(description="the releases on which these tables hold")
    cores: int
    core_order: tuple[int, ...] = Field(
        description="the order in which CPUs are brought online; the first never goes offline"
    )
    clusters: tuple[tuple[int, ...], ...] = Field(description="CPUs that share one frequency (cpufreq policies)")
    tables: Tables
    sensors: Sensors
    tree: Tree
    presets: tuple[Preset, ...]
    profiled: SubGrid | None = None
    descending_only: bool = False
    notes: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Device:
        problems = [*self._cpu_problems(), *self._table_problems(), *self._preset_problems(), *self._sensor_problems()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _cpu_problems(self) -> Iterator[str]:
        cpus = list(range(self.cores))
        if sorted(self.core_order) != cpus:
            yield f"core_order must name each of the {self.cores} CPUs once, not {self.core_order}"
        if sorted(cpu for cluster in self.clusters for cpu in cluster) != cpus:
            yield f"clusters must name each of the {self.cores} CPUs once, not {self.clusters}"

    def _table_problems(self) -> Iterator[str]:
        for knob, table in self.tables:
            if list(table.values) != sorted(set(table.values)):
                yield f"tables.{knob}.values must ascend without repeats, not {table.values}"
            stray = set(getattr(self.profiled, knob, ())) - set(table.values)
            if stray:
                yield f"profiled.{knob} has {sorted(stray)}, which tables.{knob}.values lacks"
        if self.tree.cpu_min_khz not in self.tables.cpu_khz.values:
            legal = self.tables.cpu_khz.values
            yield f"tree.cpu_min_khz {self.tree.cpu_min_khz} is not in tables.cpu_khz.values {legal}"

    def _preset_problems(self) -> Iterator[str]:
        for field in ("id", "name"):
            values = [getattr(preset, field) for preset in self.presets]
            if len(set(values)) < len(values):
                yield f"presets must have one {field} each, not {values}"
        for preset in self.presets:
            if not 1 <= preset.cores <= self.cores:
                yield f"presets.{preset.name}.cores must be 1 to {self.cores}, not {preset.cores}"
        if sum(preset.default for preset in self.presets) > 1:
            yield "presets must have one default at most"

    def _sensor_problems(self) -> Iterator[str]:
        rails = self.sensors.rails
        if self.sensors.total not in (SUM_OF_RAILS, *rails):
            yield f"sensors.total {self.sensors.total!r} must be 'sum' or one of {', '.join(rails)}"
        connected = tuple(name for chip in self.tree.chips for name in chip.channels if name != NOT_CONNECTED)
        if connected != rails:
            yield f"tree.chips has the channels {connected}, sensors.rails {rails}: they must be the same"
        if (self.tree.power_driver == "iio") != any(chip.driver == "ina3221x" for chip in self.tree.chips):
            yield "tree.power_driver must be 'iio' for chips of the driver ina3221x and 'hwmon' for all others"

    @property
    def certain(self) -> bool:
        """Say whether every frequency table was seen in full in a source."""
        return self.tables.cpu_khz.certain and self.tables.gpu_hz.certain and self.tables.emc_hz.certain

    @property
    def mode_count(self) -> int:
        """Return how many modes the board has, without building them."""
        return self.cores * math.prod(len(table.values) for _, table in self.tables)

    def space(self) -> ModeSpace:
        """Return every mode of the board."""
        from powertrain.space import ModeSpace  # numpy, which a list of boards does without

        tables = self.tables
        return ModeSpace.grid(
            range(1, self.cores + 1), tables.cpu_khz.values, tables.gpu_hz.values, tables.emc_hz.values
        )

    def profiled_space(self) -> ModeSpace | None:
        """Return the part of the grid that was measured for the papers, where there is one."""
        part = self.profiled
        if part is None:
            return None
        return self.space().subgrid(part.cores, part.cpu_khz, part.gpu_hz, part.emc_hz)

    def preset_mode(self, preset: Preset) -> PowerMode:
        """Return the mode a preset allows at most: the highest table step at or below each of its caps."""
        tables = self.tables
        return PowerMode(
            preset.cores,
            _capped(tables.cpu_khz.values, preset.cpu_khz),
            _capped(tables.gpu_hz.values, preset.gpu_hz),
            _capped(tables.emc_hz.values, preset.emc_hz),
        )


def _capped(values: tuple[int, ...], cap: int | None) -> int:
    return max((value for value in values if cap is None or value <= cap), default=values[0])


@cache
def names() -> tuple[str, ...]:
    """Return the boards of the catalogue, sorted."""
    files = resources.files(__package__).iterdir()
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in files if entry.name.endswith(".toml")))


@cache
def get(name: str) -> Device:
    """Return a board by its catalogue name."""
    if name not in names():
        raise UnknownDeviceError(f"unknown device {name!r}; known: {', '.join(names())}")
    file = resources.files(__package__).joinpath(f"{name}.toml")
    return parse(file.read_text(encoding="utf-8"), file.name)


def parse(text: str, file: str) -> Device:
    """Read one board from the text of its file; `file` is only for messages."""
    try:
        return Device.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise DeviceFileError(f"{file} is not TOML: {error}") from error
    except ValidationError as error:
        raise DeviceFileError(f"{file}: {'; '.join(_problem(detail) for detail in error.errors())}") from error


def _problem(detail: ErrorDetails) -> str:
    field = ".".join(str(part) for part in detail["loc"])
    actual = "" if detail["type"] in ("missing", "value_error") else f", not {detail['input']!r}"
    return f"{field}: {detail['msg']}{actual}" if field else detail["msg"].removeprefix("Value error, ")
