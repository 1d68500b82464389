"""Writes the reference pages that follow from the code's own data; `make manifests` runs it, a test compares."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from powertrain import devices
from powertrain.devices import Device, Preset
from powertrain_cli.devices import CLOCKS, marked, mhz, span_mhz, total_power, watts_label, yes

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the tests run this file by its path
from api_page import api_page
from chart_page import chart_page
from cli_page import cli_page
from machine_page import machine_page
from metrics_page import metrics_page

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- Written by hack/generate_docs.py; run `make manifests` instead of editing. -->"


def devices_page() -> str:
    """Return the page of the device catalogue."""
    boards = [devices.get(name) for name in devices.names()]
    overview = _table(
        ["Name", "Modules", "Cores", "CPU steps", "GPU steps", "Memory steps", "Modes", "Total power", "Certain"],
        (_overview_row(board) for board in boards),
    )
    intro = """\
The boards `powertrain` knows without seeing them. `powertrain devices show NAME` prints one, `powertrain modes NAME`
its power modes. On a real board the agent reads the tables from the kernel; the catalogue adds the name, the order in
which CPUs come online and which rail is the total. A board that is not here works with what was discovered.

A number with a question mark belongs to a table that no source printed in full: it was completed from a pattern or a
related board, and the board's section says how. *Certain* means that all three tables were seen in full."""
    sections = "\n\n".join(_section(board) for board in boards)
    return f"{MARK}\n\n# Devices\n\n{intro}\n\n{overview}\n\n{sections}\n"


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/devices.md": devices_page,
    "docs/reference/api.md": lambda: f"{MARK}\n\n{api_page()}",
    "docs/reference/chart.md": lambda: f"{MARK}\n\n{chart_page()}",
    "docs/metrics.md": lambda: f"{MARK}\n\n{metrics_page()}",
    "docs/how-the-agent-thinks.md": lambda: f"{MARK}\n\n{machine_page()}",
    "docs/reference/cli.md": lambda: f"{MARK}\n\n{cli_page()}",
}


def _overview_row(board: Device) -> list[str]:
    return [
        f"[`{board.name}`](#{board.name})",
        ", ".join(board.modules),
        str(board.cores),
        *(marked(len(values.values), values.certain) for _, values in board.tables),
        marked(len(board.space()), board.certain),
        total_power(board),
        yes(board.certain),
    ]


def _section(board: Device) -> str:
    parts = [f"## {board.name}", f"{board.title}, {board.soc}. L4T: {board.l4t}.", " ".join(board.notes.split())]
    parts.append(_clocks(board))
    parts.append(f"Total power: {total_power(board)} ({board.sensors.source}).")
    profiled = board.profiled_space()
    if board.profiled and profiled is not None:
        parts.append(f"Measured part: {len(profiled):,} modes ({board.profiled.source}).")
    if board.presets:
        parts.append(
            _table(
                ["Preset", "ID", "Watts", "Cores", "CPU cap, MHz", "GPU cap, MHz", "Memory cap, MHz"],
                (_preset_row(preset) for preset in board.presets),
            )
        )
    return "\n\n".join(part for part in parts if part)


def _clocks(board: Device) -> str:
    rows = [
        [title, str(len(values.values)), span_mhz(values.values, unit_hz), yes(values.certain), values.source]
        for (title, unit_hz), (_, values) in zip(CLOCKS.values(), board.tables, strict=True)
    ]
    return _table(["Clock", "Steps", "MHz", "Seen in full", "Source"], rows)


def _preset_row(preset: Preset) -> list[str]:
    name = f"{preset.name} (default)" if preset.default else preset.name
    caps = (mhz(getattr(preset, knob), unit_hz) for knob, (_, unit_hz) in CLOCKS.items())
    return [name, str(preset.id), watts_label(preset.watts), str(preset.cores), *caps]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def main() -> None:
    """Write every page and say which of them changed."""
    for name, page in PAGES.items():
        path, text = ROOT / name, page()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
