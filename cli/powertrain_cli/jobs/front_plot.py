"""Draws fronts of a job, board by board: predicted with its uncertainty, measured modes, the limit and the choice."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from powertrain_cli.errors import CliError, Exit
from powertrain_cli.jobs.documents import Document

_FRONT, _MEASURED, _LIMIT, _BEST, _UNSAFE = "#1f5fa8", "#4b5563", "#b3261e", "#1b7f3b", "#b35c00"


def draw_fronts(title: str, fronts: Sequence[Document], path: Path) -> None:
    """Write the picture, one panel for each board."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from matplotlib import rc_context
            from matplotlib.figure import Figure
        except ImportError:
            raise CliError("plots need matplotlib: pip install '.[cli]' in a checkout", Exit.ENVIRONMENT) from None
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "powertrain", "font.size": 9}):
            figure = Figure(figsize=(4.6 * len(fronts) + 1, 4.2), layout="constrained")
            panels = figure.subplots(1, len(fronts), squeeze=False)[0]
            for axes, each in zip(panels, fronts, strict=True):
                _panel(axes, each)
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
            figure.savefig(path, dpi=144, metadata={"Date": None} if path.suffix.lower() == ".svg" else {})


def _panel(axes: Any, each: Document) -> None:
    points = each["predicted"]
    if points:
        step_ms = [point["step_s"] * 1e3 for point in points]
        power_w = [point["power_w"] for point in points]
        low = [point["power_w"] - point["power_pm_w"] for point in points]
        high = [point["power_w"] + point["power_pm_w"] for point in points]
        axes.fill_between(step_ms, low, high, step="post", color=_FRONT, alpha=0.15, linewidth=0, label="± 2σ")
        axes.plot(step_ms, power_w, color=_FRONT, linewidth=1.2, drawstyle="steps-post", label="front, predicted")
    _dots(axes, [m for m in each["measured"] if not m["unsafe"]], "o", _MEASURED, "measured")
    _dots(axes, [m for m in each["measured"] if m["unsafe"]], "x", _UNSAFE, "left: above the limit")
    if each["limit_w"] is not None:
        axes.axhline(each["limit_w"], color=_LIMIT, linestyle="--", linewidth=1.2, label=f"limit {each['limit_w']:g} W")
    observed = each["observed"]
    if each["mode"] and observed and observed["step_s"] and observed["power_w"]:
        ring = {"s": 150, "facecolors": "none", "edgecolors": _BEST, "linewidths": 2, "zorder": 6}
        label = f"chosen: {each['human']}"
        axes.scatter([observed["step_s"] * 1e3], [observed["power_w"]], label=label, **ring)
    _axes(axes, each)


def _dots(axes: Any, modes: Sequence[Document], marker: str, colour: str, label: str) -> None:
    if modes:
        step_ms, power_w = [m["step_s"] * 1e3 for m in modes], [m["power_w"] for m in modes]
        axes.scatter(step_ms, power_w, s=22, marker=marker, color=colour, zorder=5, label=label)


def _axes(axes: Any, each: Document) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step time, ms (log scale)")
    axes.set_ylabel("power, W")
    axes.set_title(f"{each['node']} ({each['device']})", loc="left", fontsize=10)
    axes.grid(visible=True, color="#e3e6ea", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper right", fontsize=7.5, framealpha=0.92, edgecolor="#d0d4da")
