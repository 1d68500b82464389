"""Who a board is: Jetson or not, its module, its release, and its page in the catalogue."""

from __future__ import annotations

import re
from dataclasses import dataclass

from powertrain import devices
from powertrain.devices import Device
from powertrain_agent.hardware.files import optional
from powertrain_agent.sysfs import Sysfs

RELEASE = "/etc/nv_tegra_release"
_TREES = ("/proc/device-tree", "/sys/firmware/devicetree/base")  # the first is masked in plain containers
_CHIP_FILES = ("/sys/module/tegra_fuse/parameters/tegra_chip_id",)


@dataclass(frozen=True)
class Identity:
    """What the board says about itself; empty strings where it says nothing."""

    is_jetson: bool
    model: str
    module: str
    soc: str
    l4t: str

    @property
    def doubt(self) -> str:
        """Return why this is not taken for a Jetson, empty if it is."""
        if self.is_jetson:
            return ""
        return f"not a Jetson: no {RELEASE}, no Tegra in {_TREES[0]}/compatible"


def discover(sysfs: Sysfs) -> Identity:
    """Read the device tree and the release file."""
    model = _tree(sysfs, "model")
    words = _tree(sysfs, "compatible").split("\0")
    module = next(
        (match[0] for word in words for match in re.finditer(r"p\d{4}-\d{4}", word) if _is_module(match[0])), ""
    )
    soc = next((word.removeprefix("nvidia,") for word in words if word.startswith("nvidia,tegra")), "")
    release = optional(sysfs, RELEASE)
    is_jetson = bool(soc or release or any(sysfs.exists(path) for path in _CHIP_FILES))
    return Identity(is_jetson, model, module, soc, _l4t(release or ""))


def catalogue_entry(identity: Identity, gpu_table_hz: tuple[int, ...]) -> Device | None:
    """Return the catalogue's page: same module, of several the one with the same GPU table, then the same release."""
    pages = [device for device in map(devices.get, devices.names()) if identity.module in device.modules]
    release = f"R{identity.l4t.split('.')[0]} "

    def fits(page: Device) -> tuple[bool, bool]:
        return page.tables.gpu_hz.values == gpu_table_hz, page.tree.l4t_release.startswith(release)

    return max(pages, key=fits, default=None) if identity.module else None


def _tree(sysfs: Sysfs, name: str) -> str:
    return next((text for tree in _TREES if (text := optional(sysfs, f"{tree}/{name}"))), "")


def _is_module(part: str) -> bool:
    """Carrier boards (p3737, p3768, …) stand beside the module in the same word; the catalogue knows modules."""
    return any(part in devices.get(name).modules for name in devices.names()) or part[:5] in _MODULE_FAMILIES


_MODULE_FAMILIES = {"p3701", "p3767", "p2888", "p3668", "p3448", "p3310", "p3489", "p3636", "p3834"}


def _l4t(text: str) -> str:
    match = re.search(r"R(\d+)\s*\(release\),\s*REVISION:\s*([\d.]+)", text)
    return f"{match[1]}.{match[2]}" if match else ""
