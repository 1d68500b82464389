"""Draws a measured table with its front, presets and budget as text."""

from __future__ import annotations

import math
from dataclasses import dataclass

from powertrain_cli.scatter import Scatter

# Later ones are drawn over earlier ones: measured, budget, front, presets, best.
UNICODE = {"measured": "·", "budget": "─", "front": "●", "best": "★", "corner": "└", "x": "─", "y": "│", "tick": "┬"}
ASCII = {"measured": ".", "budget": "-", "front": "o", "best": "*", "corner": "+", "x": "-", "y": "|", "tick": "+"}
_LEAST_MARGIN = 7
_SMALLEST = (32, 8)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where values land: columns by the logarithm of time, rows by power."""

    width: int
    height: int
    margin: int
    low_ms: float
    high_ms: float
    low_w: float
    high_w: float

    def column(self, step_ms: float) -> int:
        span = math.log(self.high_ms / self.low_ms) or 1.0
        return round(math.log(step_ms / self.low_ms) / span * (self.width - 1))

    def row(self, power_w: float) -> int:
        return round((self.high_w - power_w) / (self.high_w - self.low_w) * (self.height - 1))


def text_plot(scatter: Scatter, width: int = 80, height: int = 22, unicode: bool = True) -> str:
    """Return the plot; presets are numbered and named below it."""
    marks = UNICODE if unicode else ASCII
    frame = _frame(scatter, max(width, _SMALLEST[0]), max(height, _SMALLEST[1]))
    cells = [[" "] * frame.width for _ in range(frame.height)]
    for step_ms, power_w in zip(scatter.step_ms, scatter.power_w, strict=True):
        cells[frame.row(power_w)][frame.column(step_ms)] = marks["measured"]
    if scatter.budget_w is not None:
        line = cells[frame.row(scatter.budget_w)]
        line[:] = [marks["budget"] if cell == " " else cell for cell in line]
    for step_ms, power_w in zip(scatter.front_ms, scatter.front_w, strict=True):
        cells[frame.row(power_w)][frame.column(step_ms)] = marks["front"]
    for number, point in enumerate(scatter.presets, 1):
        cells[frame.row(point.power_w)][frame.column(point.step_ms)] = _symbol(number)
    if scatter.best is not None:
        cells[frame.row(scatter.best.power_w)][frame.column(scatter.best.step_ms)] = marks["best"]
    return "\n".join([scatter.title, *_with_axes(cells, frame, marks), *_legend(scatter, marks)])


def _frame(scatter: Scatter, width: int, height: int) -> _Frame:
    powers = [*scatter.power_w.tolist(), *([] if scatter.budget_w is None else [scatter.budget_w])]
    low_w, high_w = min(powers), max(powers)
    room = (high_w - low_w) * 0.04 or 1.0
    times = float(scatter.step_ms.min()), float(scatter.step_ms.max())
    low_w, high_w = max(low_w - room, 0.0), high_w + room
    # Powers that hardly differ need long numbers.
    longest = max(len(f"{value:g} W ") for value in _round_values(low_w, high_w))
    margin = max(_LEAST_MARGIN, longest)
    return _Frame(width - margin - 1, height, margin, *times, low_w, high_w)


def _with_axes(cells: list[list[str]], frame: _Frame, marks: dict[str, str]) -> list[str]:
    labels = {frame.row(value): f"{value:g}" for value in _round_values(frame.low_w, frame.high_w)}
    lines = []
    for number, cell in enumerate(cells):
        unit = " W" if number == min(labels) else ""
        label = labels.get(number, "") + (unit if number in labels else "")
        lines.append(f"{label:>{frame.margin - 1}} {marks['y']}{''.join(cell)}".rstrip())
    axis = [marks["x"]] * frame.width
    below = [" "] * (frame.width + 8)
    free = 0
    for value in _log_values(frame.low_ms, frame.high_ms):
        column, text = frame.column(value), f"{value:g}"
        if column < free:
            continue
        axis[column] = marks["tick"]
        below[column : column + len(text)] = text
        free = column + len(text) + 1
    lines.append(" " * frame.margin + marks["corner"] + "".join(axis))
    unit = "step time, ms"
    ticks = "".join(below).rstrip()
    lines.append(" " * (frame.margin + 1) + ticks)
    lines.append(" " * (frame.margin + 1) + f"{unit + ' (log scale)':>{frame.width}}")
    return lines


def _legend(scatter: Scatter, marks: dict[str, str]) -> list[str]:
    lines = [f"{marks['measured']} measured  {marks['front']} front"]
    if scatter.budget_w is not None:
        lines[0] += f"  {marks['budget']} budget {scatter.budget_w:g} W"
    if scatter.best is not None:
        best = scatter.best
        lines.append(
            f"{marks['best']} fastest within the budget: {best.name}, {best.step_ms:.4g} ms, {best.power_w:.1f} W"
        )
    for number, point in enumerate(scatter.presets, 1):
        nearest = "" if point.exact else " (nearest measured mode)"
        lines.append(f"{_symbol(number)} {point.name}{nearest}, {point.step_ms:.4g} ms, {point.power_w:.1f} W")
    return lines


def _symbol(number: int) -> str:
    return "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36]


def _round_values(low: float, high: float) -> list[float]:
    """Return up to about seven round numbers between two."""
    rough = (high - low) / 7
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * scale for factor in (1, 2, 5, 10) if factor * scale >= rough)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)] or [low]


def _log_values(low: float, high: float) -> list[float]:
    """Return round numbers between two that are far apart; evenly spaced ones if they are close."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low > 20 else (1, 1.5, 2, 3, 4, 5, 7)
    values = [factor * 10.0**power for power in powers for factor in factors]
    inside = [value for value in values if low <= value <= high]
    return inside if len(inside) > 1 else [low]
