"""The board as the loop sees it: the controller, the clocks that really run, heat, throttling and foreign load."""

from __future__ import annotations

from powertrain import ModeSpace, PowerMode
from powertrain.api.v1alpha1 import NodePolicy
from powertrain_agent.control.clocks import off_clock
from powertrain_agent.control.controller import ApplyError, Controller
from powertrain_agent.control.cores import effective_policy
from powertrain_agent.control.snapshot import SnapshotError
from powertrain_agent.governing.foreign_load import ForeignLoad
from powertrain_agent.governing.ports import Applied, Health
from powertrain_agent.hardware.board import CorePolicy


class ControlledBoard:
    """Adapter of the controller to what the loop needs."""

    def __init__(self, controller: Controller, foreign: ForeignLoad | None = None) -> None:
        self.controller = controller
        self._foreign = foreign

    @property
    def space(self) -> ModeSpace:
        """Return the modes that can be applied."""
        return self.controller.space

    @property
    def device(self) -> str | None:
        """Return the catalogue's name."""
        device = self.controller.board.device
        return device.name if device else None

    @property
    def preset_watts(self) -> tuple[float | None, ...]:
        """Return the watts on the labels of the board's presets."""
        device = self.controller.board.device
        return tuple(preset.watts for preset in device.presets) if device else ()

    @property
    def descending_only(self) -> bool:
        """Say whether clocks can only be lowered until the next boot."""
        device = self.controller.board.device
        return device.descending_only if device else False

    def boot_id(self) -> str:
        """Return which boot this is; empty where the kernel does not say."""
        try:
            return self.controller.store.boot_id()
        except SnapshotError:
            return ""

    def apply(self, mode: PowerMode) -> Applied:
        """Set a mode and verify it."""
        try:
            self.controller.apply(mode)
        except ApplyError as error:
            return Applied(False, str(error))
        return Applied(True)

    def refit(self, policy: NodePolicy) -> Applied:
        """Follow another core policy and floor; where cores can't go offline they stay, and the reason is told."""
        controller = self.controller
        try:
            if controller.store.load() is not None:
                return Applied(False, "a mode is still held")
        except SnapshotError as error:
            return Applied(False, str(error))
        cores, why = effective_policy(controller.sysfs, controller.board, CorePolicy(policy.cpu_cores.value))
        controller.refit(cores, policy.min_cores or 1, policy.min_mode)
        return Applied(True, why)

    def fan_max(self, on: bool) -> Applied:
        """Set the fan to its maximum, or back."""
        try:
            report = self.controller.set_fan_max(on)
        except SnapshotError as error:
            return Applied(False, str(error))
        problems = [*map(str, report.problems), *report.notes]
        return Applied(not problems, "; ".join(problems))

    def off_clock(self, mode: PowerMode) -> dict[str, int]:
        """Return the clocks that do not run as the mode asks."""
        return off_clock(self.controller.sysfs, self.controller.board, mode)

    def health(self) -> Health:
        """Look at heat, throttling and foreign load."""
        sysfs, thermal = self.controller.sysfs, self.controller.board.thermal
        temperatures = thermal.temperatures_c(sysfs)
        return Health(
            max(temperatures.values(), default=None),
            thermal.throttling(sysfs),
            thermal.over_current_events(sysfs),
            self._foreign.look() if self._foreign else None,
        )
