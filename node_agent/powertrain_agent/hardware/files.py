"""Small readers that every part of discovery shares: optional files, numbers and CPU lists."""

from __future__ import annotations

import re
from collections.abc import Iterable

from powertrain_agent.sysfs import Sysfs, SysfsError


def optional(sysfs: Sysfs, path: str) -> str | None:
    """Return a file's text, or None when it is absent or unreadable now."""
    try:
        return sysfs.read(path)
    except SysfsError:
        return None


def number(sysfs: Sysfs, path: str) -> int | None:
    """Return the first whole number in a file, or None."""
    return first_number(optional(sysfs, path))


def first_number(text: str | None) -> int | None:
    """Return the first whole number in a text, or None."""
    match = re.search(r"-?\d+", text) if text else None
    return int(match[0]) if match else None


def numbers(text: str | None) -> tuple[int, ...]:
    """Return the positive whole numbers of a text, sorted, without repeats."""
    return tuple(
        sorted({int(word) for word in (text or "").split() if word.isascii() and word.isdigit() and int(word)})
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """Read the kernel's list form ("0-3,6") or its blank-separated form ("0 1 2 3")."""
    cpus: set[int] = set()
    for part in re.split(r"[,\s]+", text.strip()):
        if match := re.fullmatch(r"(\d+)-(\d+)", part):
            cpus.update(range(int(match[1]), int(match[2]) + 1))
        elif part.isdigit():
            cpus.add(int(part))
    return tuple(sorted(cpus))


def format_cpus(cpus: Iterable[int]) -> str:
    """Write CPUs in the kernel's list form."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def hwmon_named(sysfs: Sysfs, name: str) -> list[str]:
    """Return the hwmon directories whose name file says so; their numbers change from boot to boot."""
    base = "/sys/class/hwmon"
    return [f"{base}/{entry}" for entry in sysfs.list(base) if optional(sysfs, f"{base}/{entry}/name") == name]
