"""The fan: the one file that sets its speed, in either generation of the driver."""

from __future__ import annotations

from dataclasses import dataclass

from powertrain_agent.hardware.capability import Access, Capability, unwritable
from powertrain_agent.hardware.files import hwmon_named
from powertrain_agent.sysfs import Sysfs

MAX_PWM = 255
_JETPACK_4 = "/sys/devices/pwm-fan/target_pwm"


@dataclass(frozen=True)
class Fan:
    """The file that takes a duty of 0…255."""

    pwm_path: str


def discover(sysfs: Sysfs) -> Fan | None:
    """Return the fan, if the board has one."""
    for path in hwmon_named(sysfs, "pwmfan"):
        if sysfs.exists(f"{path}/pwm1"):
            return Fan(sysfs.resolve(f"{path}/pwm1"))
    base = "/sys/devices/platform/pwm-fan/hwmon"
    for name in sysfs.list(base):
        if sysfs.exists(f"{base}/{name}/pwm1"):
            return Fan(f"{base}/{name}/pwm1")
    return Fan(_JETPACK_4) if sysfs.exists(_JETPACK_4) else None


def capability(sysfs: Sysfs, fan: Fan | None) -> Capability:
    """Say whether the fan can be set to maximum."""
    if fan is None:
        return Capability("fan", Access.MISSING, "no hwmon named pwmfan and no /sys/devices/pwm-fan", unit="pwm")
    blocked = unwritable(sysfs, (fan.pwm_path,))
    access = Access.READ_ONLY if blocked else Access.WRITABLE
    return Capability("fan", access, blocked, (fan.pwm_path,), (0, MAX_PWM), "pwm")
