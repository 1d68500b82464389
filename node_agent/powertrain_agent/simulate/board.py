"""SimulatedBoard: builds or opens a board below a directory, gives it a load, breaks it, reboots it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from powertrain import devices
from powertrain.devices import Device, Preset
from powertrain.modes import PowerMode
from powertrain_agent.simulate import cgroups, tree, workloads
from powertrain_agent.simulate.behaviour import DEFAULT, Behaviour, behaviour_file
from powertrain_agent.simulate.faults import Fault, FaultKind
from powertrain_agent.simulate.kernel_rules import KernelRules
from powertrain_agent.simulate.layout import BOOT_ID, CPU, NVPMODEL_STATUS, Layout
from powertrain_agent.simulate.simulated_sysfs import SimulatedSysfs
from powertrain_agent.simulate.state import STATE_FILE, BoardState, Load, load_file, state_file
from powertrain_agent.sysfs import DEFAULT_TIMEOUT_S

Clock = Callable[[], float]


class SimulatedBoard:
    """A Jetson that is a directory. `sysfs` is the port to it; everything else here is what the world does to it."""

    def __init__(self, sysfs: SimulatedSysfs) -> None:
        self.sysfs = sysfs
        self.root = sysfs.root
        self.device = sysfs.layout.device

    @classmethod
    def create(
        cls,
        root: Path,
        name: str,
        *,
        preset: int | None = None,
        seed: int = 0,
        now: Clock = time.time,
        time_scale: float = 1.0,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        behaviour: str = DEFAULT,
    ) -> SimulatedBoard:
        """Build a catalogue board that has just booted in a preset (default: the one that allows most)."""
        device = devices.get(name)
        chosen = _preset(device, preset) if preset is not None else tree.default_preset(device)
        layout = Layout(device)
        root.mkdir(parents=True, exist_ok=True)
        behaviour_file(root).save(Behaviour.parse(behaviour))
        state_file(root).save(BoardState(name, chosen.id, seed, 0, KernelRules(layout).boot(chosen)))
        board = cls(SimulatedSysfs(root, now, time_scale, timeout_s))
        board.reboot()
        return board

    @classmethod
    def open(
        cls, root: Path, *, now: Clock = time.time, time_scale: float = 1.0, timeout_s: float | None = DEFAULT_TIMEOUT_S
    ) -> SimulatedBoard:
        """Open a board that was built before, after whatever happened to the process that used it."""
        board = cls(SimulatedSysfs(root, now, time_scale, timeout_s))
        board.sysfs.settle_files()
        return board

    @classmethod
    def exists(cls, root: Path) -> bool:
        """Say whether a directory holds a simulated board."""
        return (root / STATE_FILE).exists()

    # The training

    def load(
        self, workload: str, batch_size: int | None = None, pid: int | None = None, lasts_s: float | None = None
    ) -> None:
        """Start a training; with a pid it ends when that process does, with `lasts_s` unless it is renewed in time."""
        known_workload = workloads.get(workload)
        now_s = self.sysfs.board_s()
        running = load_file(self.root).load()
        since_s = running.since_s if running is not None and running.alive(now_s) else now_s
        until_s = None if lasts_s is None else now_s + lasts_s
        load_file(self.root).save(Load(workload, batch_size or known_workload.batch_size, since_s, pid, until_s))

    def unload(self) -> None:
        """End the training; the power falls from where it is."""
        self.sysfs.commit({})
        load_file(self.root).remove()

    def step_s(self, index: int = 10) -> float:
        """Return the time of a step in the mode that really runs; the first ones after a start are slower."""
        return self.sysfs.instant().step_s * workloads.first_step_factor(index)

    def mode(self) -> PowerMode:
        """Return the clocks that really run."""
        return self.sysfs.instant().mode

    def behave(self, behaviour: str) -> None:
        """Let loads and the sensor behave another way from now on: a name, and any `,field=value`."""
        behaviour_file(self.root).save(Behaviour.parse(behaviour))

    def power_w(self) -> float:
        """Return the power of this moment without phases, pulses and the sensor's noise."""
        return self.sysfs.instant().power_w

    # What goes wrong

    def inject(self, fault: Fault) -> None:
        """Switch a fault on from now."""
        self.sysfs.faults.add(replace(fault, since_s=self.sysfs.board_s()))

    def clear(self, kind: FaultKind | None = None) -> None:
        """Switch all faults, or all of one kind, off; what hangs returns."""
        self.sysfs.faults.clear(kind)
        self.sysfs.release_stuck()

    def over_current(self, alarm: int = 3, events: int = 1) -> None:
        """Let an over-current alarm fire."""
        events_by_alarm = dict(self.sysfs.state().over_current)
        events_by_alarm[str(alarm)] = events_by_alarm.get(str(alarm), 0) + events
        self.sysfs.commit({}, over_current=events_by_alarm)

    # What others do

    def nvpmodel(self, preset: int | None = None) -> None:
        """Re-run nvpmodel: cores, limits and cap go back to the preset, behind everybody's back."""
        chosen = _preset(self.device, self.sysfs.state().preset if preset is None else preset)
        self.sysfs.commit(self.sysfs.rules.preset(chosen), preset=chosen.id)
        self._write(NVPMODEL_STATUS, f"pmode:{chosen.id:04d}")

    def jetson_clocks(self) -> None:
        """Pin everything to the active preset's maximum, as the script of that name does."""
        rules, layout = self.sysfs.rules, self.sysfs.layout
        requests = self.sysfs.state().requests
        changes: dict[str, int | str] = {
            f"{p}/scaling_min_freq": requests[f"{p}/scaling_max_freq"] for p in layout.policies
        }
        changes[f"{layout.devfreq}/min_freq"] = rules.gpu_limits(requests)[1]
        if layout.nvgpu:
            changes[f"{layout.gpu}/railgate_enable"] = 0
        changes |= {rules.emc_lock: 1, rules.emc_rate: rules.emc_ceiling(requests)}
        changes |= {path: 1 for path in rules.attributes if path.startswith(CPU) and path.endswith("/disable")}
        self.sysfs.commit(changes)

    def reboot(self) -> None:
        """Boot again: nvpmodel's stored preset, a new boot_id, no pods, no training."""
        state = self.sysfs.state()
        chosen = _preset(self.device, state.preset)
        cgroups.remove_all_pods(self.root)
        load_file(self.root).remove()
        tree.build(self.root, self.sysfs.layout, self.sysfs.rules.attributes)
        state_file(self.root).save(
            replace(
                state, boot=state.boot + 1, requests=self.sysfs.rules.boot(chosen), settle_from_w=0.0, over_current={}
            )
        )
        self.sysfs.settle_files()
        self._write(BOOT_ID, self.sysfs.state().boot_id)
        self._write(NVPMODEL_STATUS, f"pmode:{chosen.id:04d}")
        self.sysfs.refresh()

    def boot_with(self, host_boot_id: str) -> None:
        """Boot when the host does: its pods ask for the host's boot id, so the board takes that one."""
        if self.sysfs.read(BOOT_ID).strip() != host_boot_id:
            self.reboot()
            self._write(BOOT_ID, host_boot_id)

    def add_pod(self, uid: str, driver: cgroups.Driver = "cgroupfs") -> Path:
        """Let a kubelet start a pod: its control group appears on the host."""
        return cgroups.add_pod(self.root, uid, self.sysfs.layout, driver)

    def remove_pod(self, uid: str) -> None:
        """Let a pod end."""
        cgroups.remove_pod(self.root, uid, self.sysfs.layout)

    def refresh(self) -> None:
        """Exchange with those who use the plain files: take over what they wrote, show them what changed by itself."""
        self.sysfs.absorb()
        self.sysfs.refresh()

    def _write(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        tree.rewrite(target, f"{text}\n")


def _preset(device: Device, preset_id: int) -> Preset:
    presets = tree.presets(device)
    for preset in presets:
        if preset.id == preset_id:
            return preset
    raise ValueError(f"unknown preset {preset_id}; the board has {', '.join(f'{p.id} {p.name}' for p in presets)}")
