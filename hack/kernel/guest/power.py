"""Turns the clocks that the kernel shows into watts, volts, degrees and step times, by the simulated board's model.

The model is the simulator's; the settings it starts from are those that the real kernel has in force.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from powertrain import devices
from powertrain_agent.simulate.dynamics import Instant, World
from powertrain_agent.simulate.faults import NO_FAULTS
from powertrain_agent.simulate.kernel_rules import KernelRules, Kind
from powertrain_agent.simulate.layout import Layout
from powertrain_agent.simulate.state import BoardState, Load
from powertrain_agent.simulate.tree import default_preset

DEVICES = Path("/sys/devices/platform")
PERIOD_S = 0.1
SHUNT_OHMS = 0.005
_BUS_STEP_MV, _SHUNT_STEP_UV = 8, 40  # of an INA3221, whose registers hold the value three bits further left
_FILE = Path("/run/training")


class Board:
    """One board: what its kernel has in force, and what follows from that."""

    def __init__(self, name: str) -> None:
        self.device = devices.get(name)
        self.layout = Layout(self.device)
        self.rules = KernelRules(self.layout)
        preset = default_preset(self.device)
        self._state = BoardState(name, preset.id, 0, 0, self.rules.boot(preset))

    def instant(self) -> Instant:
        """Return the board as it is now; the power moves from where it was when the settings last changed."""
        requests = {path: self._shown_value(path, value) for path, value in self._state.requests.items()}
        now = self._at(self._state)
        if requests != self._state.requests:
            moved = replace(self._state, requests=requests, settle_from_w=now.power_w, settle_since_s=now.world.now_s)
            self._state = moved
            now = self._at(moved)
        return now

    def _at(self, state: BoardState) -> Instant:
        return Instant(World(self.layout, self.rules, NO_FAULTS, state, training(), time.monotonic()))

    def _shown_value(self, path: str, file_value: int | str) -> int | str:
        """Return what the kernel shows; a file that is not there or can't be read now keeps what was known."""
        try:
            text = Path(path).read_text(encoding="utf-8").strip()
        except OSError:
            return file_value
        word = self.rules.attributes[path].kind is Kind.WORD
        return text if word or not text.lstrip("-").isdigit() else int(text)

    def publish(self) -> None:
        """Set the registers of the sensors and the temperatures to this moment's values."""
        now = self.instant()
        words: dict[str, list[str]] = {}
        rails = {rail.name: rail for rail in self.layout.rails}
        for chip in self.device.tree.chips:
            bus, _, address = chip.address.partition("-")
            for channel, name in enumerate(chip.channels):
                if name in rails:
                    volts = rails[name].millivolts / 1e3
                    lines = words.setdefault(bus, [])
                    lines += _registers(int(address, 16), channel, volts, now.rail_w[name] / volts)
        for bus, lines in words.items():
            write(DEVICES / f"powertrain-i2c-{bus}" / "registers", "\n".join(lines))
        for number in range(len(self.device.tree.thermal_zones)):
            write(DEVICES / "powertrain-board" / "temperature", f"{number} {round(now.celsius * 1000)}")


def _registers(address: int, channel: int, volts: float, amperes: float) -> list[str]:
    bus = round(volts * 1e3 / _BUS_STEP_MV) << 3
    shunt = round(amperes * SHUNT_OHMS * 1e6 / _SHUNT_STEP_UV) << 3
    return [f"{address:x} {2 * channel + 2:x} {bus:x}", f"{address:x} {2 * channel + 1:x} {shunt:x}"]


def write(path: Path, text: str) -> None:
    """Hand a text to the kernel in one write."""
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def training() -> Load | None:
    """Return the training that announced itself, if one runs."""
    try:
        workload, batch_size, since_s, pid = _FILE.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    return Load(workload, int(batch_size), float(since_s), int(pid))


def announce(workload: str, batch_size: int) -> None:
    """Say that this process trains; it counts for as long as the process lives."""
    beside = _FILE.with_suffix(".new")
    beside.write_text(f"{workload} {batch_size} {time.monotonic()} {os.getpid()}", encoding="utf-8")
    beside.replace(_FILE)


def once(board: str) -> float:
    """Publish this moment's values and return the watts of the model."""
    live_board = Board(board)
    live_board.publish()
    return live_board.instant().power_w


def forever(board: str) -> None:
    """Publish the values ten times a second."""
    live_board = Board(board)
    while True:
        live_board.publish()
        time.sleep(PERIOD_S)
