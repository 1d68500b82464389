"""The GPU's knobs: its devfreq directory under any of NVIDIA's path variants, and its legal clocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from powertrain_agent.hardware.capability import Access, Capability, unwritable
from powertrain_agent.hardware.files import number, numbers, optional
from powertrain_agent.sysfs import Sysfs

CLASS = "/sys/class/devfreq"
_NODE_NAMES = {"gpu", "gm20b", "gp10b", "gv11b", "ga10b", "gb10b"}
_DEVICE_NAME = re.compile(r"(?:[0-9a-f]+\.(?:gpu|gm20b|gp10b|gv11b|ga10b|gb10b)|gpu\.0)")
_PARENTS = ("/sys/devices", "/sys/devices/platform", "/sys/devices/platform/bus@0")
_THOR_CLASS_NAME = "gpu-gpc-0"
_THOR_MASK = "/sys/module/nvidia/parameters/NVreg_TegraGpuPgMask"


@dataclass(frozen=True)
class Gpu:
    """The GPU's devfreq directory, its device directory, and its clock table in Hz."""

    path: str
    device_path: str
    table_hz: tuple[int, ...]

    @property
    def min_path(self) -> str:
        """Return the lower limit's file (Hz)."""
        return f"{self.path}/min_freq"

    @property
    def max_path(self) -> str:
        """Return the upper limit's file (Hz)."""
        return f"{self.path}/max_freq"


def discover(sysfs: Sysfs) -> Gpu | None:
    """Return the first devfreq directory that belongs to the GPU."""
    for path in _candidates(sysfs):
        if not sysfs.exists(f"{path}/max_freq"):
            continue
        directory = sysfs.resolve(path)
        device = (
            sysfs.resolve(f"{directory}/device") if sysfs.exists(f"{directory}/device") else _device_above(directory)
        )
        return Gpu(directory, device, numbers(optional(sysfs, f"{directory}/available_frequencies")))
    return None


def device_path(sysfs: Sysfs) -> str | None:
    """Return the GPU's device directory, which exists even while a gated GPU has no devfreq."""
    return next(iter(_devices(sysfs)), None)


def capability(sysfs: Sysfs, gpu: Gpu | None) -> Capability:
    """Say whether the GPU clock can be pinned."""
    if gpu is None:
        device = device_path(sysfs)
        reason = (
            f"the GPU at {device} has no devfreq directory; it may be rail-gated since boot "
            f"(echo 0 > {device}/railgate_enable makes it appear)"
            if device
            else f"no GPU in {CLASS} nor below {', '.join(_PARENTS)}"
        )
        return Capability("gpu", Access.MISSING, reason, unit="Hz")
    paths = (gpu.min_path, gpu.max_path)
    if not gpu.table_hz:
        return Capability("gpu", Access.READ_ONLY, f"{gpu.path} shows no available_frequencies", paths, unit="Hz")
    blocked = unwritable(sysfs, paths)
    unread = [path for path in paths if number(sysfs, path) is None]
    if unread and not blocked:
        # What can't be read could not be restored: modes then differ in the other clocks alone.
        blocked = f"{unread[0]} can't be read: the GPU's clock is left to its governor"
    return Capability("gpu", Access.READ_ONLY if blocked else Access.WRITABLE, blocked, paths, gpu.table_hz, "Hz")


def present_hz(sysfs: Sysfs, gpu: Gpu) -> int | None:
    """Return the upper limit in force; none (0) means the top of the table."""
    limit = number(sysfs, gpu.max_path)
    if limit == 0 and gpu.table_hz:
        return gpu.table_hz[-1]
    return limit


def tpc_mask(sysfs: Sysfs, gpu: Gpu | None) -> str:
    """Return the mask of GPU parts switched off since boot, "unknown" if not shown; no clock write changes it."""
    device = gpu.device_path if gpu else device_path(sysfs)
    mask = optional(sysfs, f"{device}/tpc_pg_mask") if device else None
    return mask or optional(sysfs, _THOR_MASK) or "unknown"


def _candidates(sysfs: Sysfs) -> Iterator[str]:
    for name in sysfs.list(CLASS):
        if name == _THOR_CLASS_NAME or _is_gpu_node(sysfs, f"{CLASS}/{name}/device/of_node"):
            yield f"{CLASS}/{name}"
    for device in _devices(sysfs):
        yield from (f"{device}/devfreq/{name}" for name in sysfs.list(f"{device}/devfreq"))
        yield f"{device}/devfreq_dev"


def _is_gpu_node(sysfs: Sysfs, node: str) -> bool:
    if optional(sysfs, f"{node}/name") in _NODE_NAMES:
        return True
    compatible = optional(sysfs, f"{node}/compatible") or ""
    return any(word.removeprefix("nvidia,") in _NODE_NAMES for word in compatible.split("\0") if "," in word)


def _devices(sysfs: Sysfs) -> Iterator[str]:
    for parent in _PARENTS:
        yield from (f"{parent}/{name}" for name in sysfs.list(parent) if _DEVICE_NAME.fullmatch(name))


def _device_above(path: str) -> str:
    head, marker, _ = path.partition("/devfreq")
    return head if marker else path
