"""Layout: where a catalogue board keeps its files, as paths below the root of the simulated tree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from powertrain.devices import NOT_CONNECTED, Chip, Device

CPU = "/sys/devices/system/cpu"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BPMP = "/sys/kernel/debug/bpmp/debug"
OVERRIDE = "/sys/kernel/debug/clk/override.emc"
BANDWIDTH_MANAGER = "/sys/devices/platform/bwmgr/devfreq/bwmgr"
THOR_MASK = "/sys/module/nvidia/parameters/NVreg_TegraGpuPgMask"
THERMAL = "/sys/devices/virtual/thermal"
NVPMODEL_STATUS = "/var/lib/nvpmodel/status"
COOLERS = ("cpu-throttle-alert", "gpu-throttle-alert", "soc0-throttle-alert")

OVER_CURRENT_HWMON, FAN_HWMON, FIRST_CHIP_HWMON = 1, 2, 3


@dataclass(frozen=True)
class Rail:
    """One measured channel: its files (hwmon has no power file, iio has mW, the INA238 µW) and its voltage."""

    name: str
    voltage: str
    current: str
    power: str | None
    millivolts: int
    power_per_w: float = 1e3


@dataclass(frozen=True)
class Layout:
    """The paths of one board; everything follows from the catalogue."""

    device: Device

    @cached_property
    def l4t(self) -> int:
        """Return the major release of Linux for Tegra, such as 35."""
        match = re.match(r"R(\d+)", self.device.tree.l4t_release)
        return int(match[1]) if match else 0

    @cached_property
    def policies(self) -> dict[str, tuple[int, ...]]:
        """Return each cpufreq policy's directory and its CPUs; a policy is named after its lowest CPU."""
        return {f"{CPU}/cpufreq/policy{min(cluster)}": tuple(sorted(cluster)) for cluster in self.device.clusters}

    @cached_property
    def cgroup_version(self) -> int:
        """Return 1 for the releases whose distribution mounts the old hierarchy."""
        return 1 if self.l4t < 34 else 2

    @property
    def gpu(self) -> str:
        """Return the GPU's device directory."""
        return f"/sys/{self.device.tree.gpu_path}"

    @property
    def devfreq(self) -> str:
        """Return the GPU's devfreq directory."""
        return f"{self.gpu}/devfreq/{self.device.tree.gpu_class}"

    @property
    def nvgpu(self) -> bool:
        """Say whether NVIDIA's driver for built-in GPUs runs it; Thor's is that of cards, with fewer files."""
        return bool(self.device.tree.gpu_node)

    @property
    def bandwidth_manager(self) -> str | None:
        """Return the devfreq directory that governs the memory clock, where the release has one."""
        return BANDWIDTH_MANAGER if self.device.tree.bwmgr else None

    @property
    def emc(self) -> str:
        """Return the directory that holds the memory clock's switches."""
        return f"{BPMP}/clk/emc" if self.bpmp else OVERRIDE

    @property
    def bpmp(self) -> bool:
        """Say whether the memory clock is locked through the BPMP (all but the Nano)."""
        return self.device.tree.emc == "bpmp"

    @property
    def emc_cap(self) -> str:
        """Return the file that caps the memory clock."""
        return f"/sys/{self.device.tree.emc_cap}"

    @property
    def rounding_cap(self) -> bool:
        """Say whether the cap file rounds and reads back the effective maximum (R36) or what was written."""
        return "nvpmodel_clk_cap" in self.emc_cap

    @property
    def bwmgr_halt(self) -> str | None:
        """Return the switch that stops the bandwidth manager, where the release has one."""
        return f"{BPMP}/bwmgr/bwmgr_halt" if self.bpmp and self.l4t >= 36 else None

    @property
    def fan_pwm(self) -> str:
        """Return the file that sets the fan, 0 to 255."""
        return "/sys/devices/pwm-fan/target_pwm" if self.l4t < 34 else f"{self.fan}/pwm1"

    @property
    def fan(self) -> str:
        """Return the fan's directory."""
        return "/sys/devices/pwm-fan" if self.l4t < 34 else f"/sys/devices/platform/pwm-fan/hwmon/hwmon{FAN_HWMON}"

    @property
    def over_current(self) -> str | None:
        """Return the directory of the over-current counters, where the release has one."""
        return None if self.l4t < 34 else f"/sys/devices/platform/soctherm-oc-event/hwmon/hwmon{OVER_CURRENT_HWMON}"

    @cached_property
    def zones(self) -> dict[str, str]:
        """Return each thermal zone's directory and its type."""
        names = self.device.tree.thermal_zones
        return {f"{THERMAL}/thermal_zone{index}": name for index, name in enumerate(names)}

    @cached_property
    def coolers(self) -> dict[str, str]:
        """Return each cooling device's directory and its type."""
        return {f"{THERMAL}/cooling_device{index}": name for index, name in enumerate(COOLERS)}

    def chip_dir(self, chip: Chip) -> str:
        """Return the directory below the i2c device in which a chip's channels are read."""
        index = self.device.tree.chips.index(chip)
        device = f"/sys/bus/i2c/devices/{chip.address}"
        if self.device.tree.power_driver == "iio":
            return f"{device}/iio:device{index}"
        return f"{device}/hwmon/hwmon{FIRST_CHIP_HWMON + index}"

    @cached_property
    def rails(self) -> tuple[Rail, ...]:
        """Return the measured channels in the catalogue's order, without unconnected ones."""
        all_rails = []
        for chip in self.device.tree.chips:
            base = self.chip_dir(chip)
            for channel, name in enumerate(chip.channels):
                if name == NOT_CONNECTED:
                    continue
                all_rails.append(self._rail(base, chip, channel, name))
        return tuple(all_rails)

    @cached_property
    def rail_names(self) -> tuple[str, ...]:
        """Return the names of the measured channels."""
        return tuple(rail.name for rail in self.rails)

    def _rail(self, base: str, chip: Chip, channel: int, name: str) -> Rail:
        millivolts = 5000 if re.search("5V|SYS5V|1V8", name) or self.device.cores < 8 else 12000
        if chip.driver == "ina3221x":
            files = [f"{base}/in_{kind}{channel}_input" for kind in ("voltage", "current", "power")]
            return Rail(name, files[0], files[1], files[2], millivolts)
        if chip.driver == "ina238":
            return Rail(name, f"{base}/in1_input", f"{base}/curr1_input", f"{base}/power1_input", millivolts, 1e6)
        return Rail(name, f"{base}/in{channel + 1}_input", f"{base}/curr{channel + 1}_input", None, millivolts)
