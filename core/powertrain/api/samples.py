"""Samples and fronts on the wire: parallel columns over shared axes, so that a thousand fit into one small object.

A column is one text, its values parted by spaces. As a list each value would be a node that the API server parses,
checks, compares and copies with every write to the object, whatever was written: ten times the cost of all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from powertrain.api.base import ApiModel
from powertrain.modes import PowerMode
from powertrain.prediction import Prediction
from powertrain.samples import EarlySample, Sample
from powertrain.space import ModeSpace

MAX_SAMPLES = 1024
MAX_FRONT = 256
# The longest axis of a known board has 32 values.
MAX_AXIS = 128
# Half a unit in the last of four digits is 0.05 %, a tenth of what the best measurement is worth.
DIGITS = 4

# Stands for a value that is not known.
UNKNOWN = "-"
# The longest number in a text: a clock in Hz, or four digits with an exponent, and the space after it.
_CHARACTERS = 12


def _split(column: Any) -> Any:
    if not isinstance(column, str):
        return column
    return tuple(None if value == UNKNOWN else value for value in column.split())


def _joined(column: tuple[float | None, ...]) -> str:
    return " ".join(UNKNOWN if value is None else str(value) for value in column)


# What makes a tuple one text on the wire.
_SPLIT, _JOINED = BeforeValidator(_split), PlainSerializer(_joined, return_type=str, when_used="json")
_TEXT = WithJsonSchema({"type": "string", "maxLength": MAX_SAMPLES * _CHARACTERS})

Axis = Annotated[tuple[int, ...], Field(max_length=MAX_AXIS), _SPLIT, _JOINED, _TEXT]
Places = Annotated[tuple[Annotated[int, Field(ge=0, lt=MAX_AXIS)], ...], _SPLIT, _JOINED, _TEXT]
Counts = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=MAX_SAMPLES), _SPLIT, _JOINED, _TEXT]
MaybeCounts = Annotated[tuple[int | None, ...], Field(max_length=MAX_SAMPLES), _SPLIT, _JOINED, _TEXT]
Numbers = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(max_length=MAX_SAMPLES), _SPLIT, _JOINED, _TEXT]
MaybeNumbers = Annotated[tuple[float | None, ...], Field(max_length=MAX_SAMPLES), _SPLIT, _JOINED, _TEXT]

# Field on the wire → field of a Sample, and how many digits it is worth.
_OPTIONAL = {
    "peak_watts": ("power_peak_w", DIGITS),
    "step_spread_seconds": ("step_spread_s", 2),
    "power_spread_watts": ("power_spread_w", 2),
    "steps": ("steps", DIGITS),
    "temperature_celsius": ("temperature_c", 3),
    "step_error_seconds": ("step_error_s", 2),
    "power_error_watts": ("power_error_w", 2),
}
# Lists of places of samples, not columns.
_PLACE_LISTS = ("unsafe", "throttled")


class Axes(ApiModel):
    """The values that the knobs take; modes refer to them by place."""

    cores: Annotated[Axis, Field(description="Numbers of CPU cores.")] = ()
    cpu_khz: Annotated[Axis, Field(alias="cpuKHz", description="CPU clocks.")] = ()
    gpu_hz: Annotated[Axis, Field(description="GPU clocks.")] = ()
    emc_hz: Annotated[Axis, Field(description="Memory clocks.")] = ()


class ModeColumns(ApiModel):
    """Power modes, one per place of each column; a column holds places in its axis, counted from 0."""

    # Columns that may be left out.
    optional_columns: ClassVar[frozenset[str]] = frozenset()

    axes: Annotated[Axes, Field(description="The values that the columns refer to.")] = Axes()
    cores: Annotated[Places, Field(description="Places in axes.cores.")] = ()
    cpu: Annotated[Places, Field(description="Places in axes.cpuKHz.")] = ()
    gpu: Annotated[Places, Field(description="Places in axes.gpuHz.")] = ()
    emc: Annotated[Places, Field(description="Places in axes.emcHz.")] = ()

    @model_validator(mode="after")
    def _consistent(self) -> ModeColumns:
        self._check_lengths()
        for name, places, axis in self._columns():
            if places and max(places) >= len(axis):
                raise ValueError(f"column {name} refers to place {max(places)} of an axis of {len(axis)} values")
        return self

    def __len__(self) -> int:
        return len(self.cores)

    def modes(self) -> Iterator[PowerMode]:
        """Return the modes in order."""
        columns = [[axis[place] for place in places] for _, places, axis in self._columns()]
        return (PowerMode(*knobs) for knobs in zip(*columns, strict=True))

    def _columns(self) -> tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]:
        axes = self.axes
        return (
            ("cores", self.cores, axes.cores),
            ("cpu", self.cpu, axes.cpu_khz),
            ("gpu", self.gpu, axes.gpu_hz),
            ("emc", self.emc, axes.emc_hz),
        )

    def _check_lengths(self) -> None:
        """Every column has a value for each mode; some may be left out."""
        for name in type(self).model_fields:
            column = getattr(self, name)
            if not isinstance(column, tuple) or name in _PLACE_LISTS or (name in self.optional_columns and not column):
                continue
            if len(column) != len(self):
                raise ValueError(f"column {name} has {len(column)} values for {len(self)} modes")


def _mode_columns(modes: Sequence[PowerMode]) -> dict[str, Any]:
    """Return the four columns and their axes for these modes."""
    if not modes:
        return {}
    axes = [tuple(sorted({getattr(mode, knob) for mode in modes})) for knob in ("cores", "cpu_khz", "gpu_hz", "emc_hz")]
    place = [{value: index for index, value in enumerate(axis)} for axis in axes]
    columns = zip(*((m.cores, m.cpu_khz, m.gpu_hz, m.emc_hz) for m in modes), strict=True)
    places = [[place[k][value] for value in column] for k, column in enumerate(columns)]
    return {
        "axes": Axes(cores=axes[0], cpu_khz=axes[1], gpu_hz=axes[2], emc_hz=axes[3]),
        **dict(zip(("cores", "cpu", "gpu", "emc"), places, strict=True)),
    }


def short(value: float, digits: int = DIGITS) -> float:
    """Return a number with as many digits as it is worth on the wire."""
    return float(f"{value:.{digits}g}")


class EarlySamples(ModeColumns):
    """Modes that a visit left early, under a mean limit. Their power was estimated; no step time counts as measured."""

    optional_columns: ClassVar[frozenset[str]] = frozenset({"step_seconds", "step_error_seconds"})

    power_watts: Annotated[Numbers, Field(description="Where the power settles, as estimated.")] = ()
    power_error_watts: Annotated[Numbers, Field(description="Standard deviation of that.")] = ()
    step_seconds: Annotated[MaybeNumbers, Field(description="Time of the few steps, a dash without any.")] = ()
    step_error_seconds: Annotated[MaybeNumbers, Field(description="Standard deviation of that.")] = ()

    @classmethod
    def of(cls, samples: Iterable[EarlySample]) -> EarlySamples:
        """Build the columns; of more than fit, the newest are kept."""
        rows = list(samples)[-MAX_SAMPLES:]
        return cls(
            **_mode_columns([row.mode for row in rows]),
            power_watts=tuple(short(row.power_w) for row in rows),
            power_error_watts=tuple(short(row.power_error_w, 2) for row in rows),
            step_seconds=_shortened([row.step_s for row in rows], DIGITS),
            step_error_seconds=_shortened([row.step_error_s for row in rows], 2),
        )

    def samples(self) -> list[EarlySample]:
        """Return them, in order."""
        nothing: tuple[float | None, ...] = (None,) * len(self)
        times, errors = self.step_seconds or nothing, self.step_error_seconds or nothing
        columns = zip(self.modes(), self.power_watts, self.power_error_watts, times, errors, strict=True)
        return [EarlySample(*row) for row in columns]


class Samples(ModeColumns):
    """Measured modes. Optional columns are empty, or have a dash where one sample lacks the value."""

    optional_columns: ClassVar[frozenset[str]] = frozenset(_OPTIONAL)

    batch_size: Annotated[int, Field(ge=1, description="Samples per training step, the same for all.")] = 1
    step_seconds: Annotated[Numbers, Field(description="Median time of a step.")] = ()
    power_watts: Annotated[Numbers, Field(description="Median power.")] = ()
    peak_watts: Annotated[MaybeNumbers, Field(description="Highest reading.")] = ()
    step_spread_seconds: Annotated[MaybeNumbers, Field(description="Standard deviation of single steps.")] = ()
    power_spread_watts: Annotated[MaybeNumbers, Field(description="Standard deviation of single readings.")] = ()
    steps: Annotated[MaybeCounts, Field(description="Steps in the window.")] = ()
    temperature_celsius: Annotated[MaybeNumbers, Field(description="Temperature in the window.")] = ()
    unsafe: Annotated[Counts, Field(description="Places of samples left early, above the limit.")] = ()
    throttled: Annotated[Counts, Field(description="Places of samples taken while the board throttled.")] = ()
    step_error_seconds: Annotated[MaybeNumbers, Field(description="Standard deviation of the time itself.")] = ()
    power_error_watts: Annotated[MaybeNumbers, Field(description="Standard deviation of the power itself.")] = ()
    early: Annotated[EarlySamples, Field(description="Modes that a visit left early: their power alone counts.")] = (
        EarlySamples()
    )

    @classmethod
    def of(cls, samples: Iterable[Sample], batch_size: int = 1, early: Iterable[EarlySample] = ()) -> Samples:
        """Build the columns; of more than fit, the newest are kept."""
        rows = list(samples)[-MAX_SAMPLES:]
        optional: dict[str, Any] = {
            name: _shortened([getattr(row, source) for row in rows], digits)
            for name, (source, digits) in _OPTIONAL.items()
        }
        return cls(
            **_mode_columns([row.mode for row in rows]),
            batch_size=batch_size,
            step_seconds=tuple(short(row.step_s) for row in rows),
            power_watts=tuple(short(row.power_w) for row in rows),
            unsafe=tuple(place for place, row in enumerate(rows) if row.unsafe),
            throttled=tuple(place for place, row in enumerate(rows) if row.throttled),
            early=EarlySamples.of(early),
            **optional,
        )

    def samples(self) -> list[Sample]:
        """Return the samples, in order."""
        unsafe, throttled = set(self.unsafe), set(self.throttled)
        optional = {source: getattr(self, name) for name, (source, _) in _OPTIONAL.items()}
        return [
            Sample(
                mode,
                self.step_seconds[place],
                self.power_watts[place],
                self.batch_size,
                unsafe=place in unsafe,
                throttled=place in throttled,
                **{source: column[place] for source, column in optional.items() if column},
            )
            for place, mode in enumerate(self.modes())
        ]


def _shortened(column: list[Any], digits: int) -> tuple[Any, ...]:
    """Return the column, empty where no sample has a value."""
    if all(value is None for value in column):
        return ()
    return tuple(value if value is None or isinstance(value, int) else short(value, digits) for value in column)


class Front(ModeColumns):
    """The modes that no other beats in time and power, fastest first, as predicted; ± is one standard deviation."""

    step_seconds: Annotated[Numbers, Field(max_length=MAX_FRONT, description="Time of a step.")] = ()
    step_std_seconds: Annotated[Numbers, Field(max_length=MAX_FRONT, description="± of the time.")] = ()
    power_watts: Annotated[Numbers, Field(max_length=MAX_FRONT, description="Power.")] = ()
    power_std_watts: Annotated[Numbers, Field(max_length=MAX_FRONT, description="± of the power.")] = ()

    @classmethod
    def of(cls, space: ModeSpace, prediction: Prediction, rows: Iterable[int]) -> Front:
        """Build the columns of these rows of the space (`stored_front` gives at most as many as fit)."""
        row_numbers = [int(row) for row in rows]
        if len(row_numbers) > MAX_FRONT:
            raise ValueError(f"a front has at most {MAX_FRONT} points on the wire, not {len(row_numbers)}")
        return cls(
            **_mode_columns([space[row] for row in row_numbers]),
            step_seconds=tuple(short(prediction.time_s[row]) for row in row_numbers),
            step_std_seconds=tuple(short(prediction.time_std_s[row]) for row in row_numbers),
            power_watts=tuple(short(prediction.power_w[row]) for row in row_numbers),
            power_std_watts=tuple(short(prediction.power_std_w[row]) for row in row_numbers),
        )
