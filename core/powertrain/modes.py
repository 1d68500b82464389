"""PowerMode: the four knobs of a Jetson as one immutable value, and its two text forms."""

from __future__ import annotations

import re
from dataclasses import dataclass

KNOBS = ("cores", "cpu_khz", "gpu_hz", "emc_hz")

# So that every mode has a text form that reads back and fits a Kubernetes label (63 characters).
MAX_CORES = 999
MAX_CLOCK = 10**12 - 1

_EXACT = "12c_2201600_1300500000_3199000000"
_HUMAN = "12c/2.20C/1.30G/3.20M"
_HUMAN_PARTS = (("CPU frequency", "C", 1e6), ("GPU frequency", "G", 1e9), ("memory frequency", "M", 1e9))


class ModeError(ValueError):
    """A power mode that can't be read or is not legal; the message says what would be."""


@dataclass(frozen=True, order=True, slots=True)
class PowerMode:
    """CPU cores online, and the clocks of CPU (kHz), GPU (Hz) and memory (Hz), each pinned."""

    cores: int
    cpu_khz: int
    gpu_hz: int
    emc_hz: int

    def __post_init__(self) -> None:
        for knob in KNOBS:
            value, most = getattr(self, knob), MAX_CORES if knob == "cores" else MAX_CLOCK
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise ModeError(f"{knob} must be a whole number from 1 to {most}, not {value!r}")

    def __str__(self) -> str:
        """Return the exact form, legal as a Kubernetes label or annotation value."""
        return f"{self.cores}c_{self.cpu_khz}_{self.gpu_hz}_{self.emc_hz}"

    @property
    def human(self) -> str:
        """Return the short form in GHz; two modes of one board never share it, but it is rounded."""
        return f"{self.cores}c/{self.cpu_khz / 1e6:.2f}C/{self.gpu_hz / 1e9:.2f}G/{self.emc_hz / 1e9:.2f}M"

    @classmethod
    def parse(cls, text: str) -> PowerMode:
        """Read either form. The human form gives rounded clocks: `ModeSpace.parse` turns them into legal ones."""
        cleaned = text.strip()
        if "/" in cleaned:
            return _parse_human(cleaned)
        return _parse_exact(cleaned)


def _cores(part: str, text: str) -> int:
    match = re.fullmatch(r"(\d{1,3})c", part, re.ASCII)
    if not match or int(match[1]) == 0:
        raise ModeError(
            f"bad cores {part!r} in mode {text!r}: write the number of cores (1 to {MAX_CORES}) and a c, such as '12c'"
        )
    return int(match[1])


def _parse_exact(text: str) -> PowerMode:
    parts = text.split("_")
    if len(parts) != 4:
        raise ModeError(f"mode {text!r} has {len(parts)} parts, not 4: write it like {_EXACT!r} or {_HUMAN!r}")
    values = [_cores(parts[0], text)]
    for part, name, unit in zip(parts[1:], ("CPU", "GPU", "memory"), ("kHz", "Hz", "Hz"), strict=True):
        if not re.fullmatch(r"\d{1,12}", part, re.ASCII) or int(part) == 0:
            raise ModeError(
                f"bad {name} frequency {part!r} in mode {text!r}: write a positive whole number of {unit}"
                " (at most 12 digits)"
            )
        values.append(int(part))
    return PowerMode(*values)


def _parse_human(text: str) -> PowerMode:
    parts = text.split("/")
    if len(parts) != 4:
        raise ModeError(f"mode {text!r} has {len(parts)} parts, not 4: write it like {_HUMAN!r} or {_EXACT!r}")
    values = [_cores(parts[0], text)]
    for part, (name, letter, scale) in zip(parts[1:], _HUMAN_PARTS, strict=True):
        match = re.fullmatch(rf"(\d{{1,6}}(?:\.\d+)?){letter}", part, re.ASCII)
        value = round(float(match[1]) * scale) if match else 0
        if not 1 <= value <= MAX_CLOCK:
            raise ModeError(
                f"bad {name} {part!r} in mode {text!r}: write GHz and the letter {letter}, such as '1.30{letter}'"
            )
        values.append(value)
    return PowerMode(*values)
