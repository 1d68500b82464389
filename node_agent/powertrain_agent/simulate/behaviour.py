"""Behaviour: how a simulated load draws power over time, and how the sensor shows it; with names for common ones."""

from __future__ import annotations

import hashlib
import math
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path

from powertrain_agent.simulate.state import BEHAVIOUR_FILE, JsonFile

DEFAULT = "typical"
# Phases within a step, of a median mode: standard deviation of the power, and how much it differs between modes. The
# scatter of readings on an Orin Nano: 2.1 to 2.4 % in the median, 5 to 6 % at the 90th percentile, 13 % at worst.
PHASE_STD, PHASE_SPREAD, MOST_PHASE_STD = 0.021, 0.7, 0.12

# A sensor samples at its own pace: the moment of a sample is anywhere within this time before a reading.
SAMPLING_S = 0.1


class UnknownBehaviourError(ValueError):
    """A behaviour that the simulator does not know, or a field of it; the message lists those it does."""


@dataclass(frozen=True)
class Behaviour:
    """Of the load: phases, pulses, pauses, evaluations. Of the sensor: lag, dead time, averaging, noise. In seconds."""

    phases: float = 1.0  # factor on the depth of phases within a step
    pulse_share: float = 0.0  # from the low to the high part of a pulse, as a share of the mean power
    pulse_s: float = 6.0  # from pulse to pulse
    pulse_high: float = 0.5  # share of that time in the high part
    pause_every_s: float = 0.0  # a checkpoint: no steps, the power of an idle board
    pause_s: float = 0.0
    evaluate_every_s: float = 0.0  # an evaluation: no steps, a share of the training's power
    evaluate_s: float = 0.0
    evaluate_power: float = 0.9
    lag_s: float = 0.8  # time constant of the power after a change: 95 % after 2.4 s, as the papers saw
    delay_s: float = 0.0  # how old the power is that the sensor shows
    averaging_s: float = 0.0  # what the sensor averages over; 0: it looks at one moment of the last `SAMPLING_S`
    update_s: float = 0.0  # how often the sensor shows a new value; 0: at every reading
    noise: float = 0.01  # relative standard deviation of a reading

    def __post_init__(self) -> None:
        wrong = [field.name for field in fields(self) if not 0.0 <= getattr(self, field.name) < math.inf]
        shares = [name for name in ("pulse_share", "pulse_high", "noise") if not getattr(self, name) < 1.0]
        if wrong or shares or self.lag_s <= 0 or self.pulse_s <= 0:
            bad = ", ".join(dict.fromkeys(wrong + shares)) or "lag_s and pulse_s must be above 0"
            raise UnknownBehaviourError(f"values of a behaviour must be 0 or more, and shares below 1: {bad}")

    @classmethod
    def parse(cls, text: str) -> Behaviour:
        """Read a name, followed by any number of `,field=value`."""
        name, *changes = text.split(",")
        if name not in names():
            raise UnknownBehaviourError(f"unknown behaviour {name!r}; known: {', '.join(names())}")
        field_names = {field.name for field in fields(cls)}
        values: dict[str, float] = {}
        for change in changes:
            key, _, value = change.partition("=")
            try:
                values[key.strip()] = float(value)
            except ValueError:
                raise UnknownBehaviourError(f"{change!r} is not of the form field=number") from None
        if unknown := values.keys() - field_names:
            raise UnknownBehaviourError(
                f"unknown fields {', '.join(sorted(unknown))}; known: {', '.join(sorted(field_names))}"
            )
        return replace(cls(**_tables()[name]), **values)

    def pulse(self, from_s: float, to_s: float) -> float:
        """Return the factor of the pulses, in the mean over a span."""
        if not self.pulse_share:
            return 1.0
        return 1.0 + self.pulse_share * square_mean(from_s, to_s, self.pulse_s, self.pulse_high)

    def phase(self, key: str, from_s: float, to_s: float, step_s: float) -> float:
        """Return the factor of the phases within a step, in the mean over a span; the key names workload and mode."""
        if not self.phases or not math.isfinite(step_s):
            return 1.0
        std, high = _phases(key)
        depth = self.phases * std / math.sqrt(high * (1.0 - high))
        return 1.0 + depth * square_mean(from_s, to_s, step_s, high)

    def pauses(self, since_start_s: float) -> bool:
        """Say whether the training saves a checkpoint."""
        return _within(since_start_s, self.pause_every_s, self.pause_s)

    def evaluates(self, since_start_s: float) -> bool:
        """Say whether the training evaluates."""
        return not self.pauses(since_start_s) and _within(since_start_s, self.evaluate_every_s, self.evaluate_s)


def names() -> tuple[str, ...]:
    """Return the names of behaviours, the default first."""
    return tuple(_tables())


def behaviour_file(root: Path) -> JsonFile[Behaviour]:
    """Return the file that holds a board's behaviour; without one it is the default."""
    return JsonFile(root / BEHAVIOUR_FILE, lambda raw: Behaviour(**raw), asdict)  # type: ignore[arg-type]


def square_mean(from_s: float, to_s: float, period_s: float, high: float) -> float:
    """Return the mean over a span of a wave of height one and mean zero that begins each period with its high part."""
    if to_s - from_s < 1e-9:
        return 1.0 - high if (to_s / period_s) % 1.0 < high else -high
    return (_area(to_s / period_s, high) - _area(from_s / period_s, high)) * period_s / (to_s - from_s)


def _area(periods: float, high: float) -> float:
    within = periods % 1.0
    return within * (1.0 - high) if within < high else high * (1.0 - within)


def _within(at_s: float, every_s: float, lasts_s: float) -> bool:
    """Say whether a moment is in the last part of a period."""
    return every_s > 0 and at_s > 0 and at_s % every_s >= every_s - lasts_s


@lru_cache(maxsize=4096)
def _phases(key: str) -> tuple[float, float]:
    """Return how much the power of a workload scatters in a mode through phases, and the share of its high phase."""
    digest = hashlib.blake2b(f"phases:{key}".encode(), digest_size=24).digest()
    first, second, third = (int.from_bytes(digest[at : at + 8], "big") / 2**64 for at in (0, 8, 16))
    normal = math.sqrt(-2.0 * math.log(first + 1e-18)) * math.cos(2.0 * math.pi * second)
    return min(MOST_PHASE_STD, PHASE_STD * math.exp(PHASE_SPREAD * normal)), 0.5 + 0.3 * third


@cache
def _tables() -> dict[str, dict[str, float]]:
    text = resources.files(__package__).joinpath("behaviours.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


TYPICAL = Behaviour()
