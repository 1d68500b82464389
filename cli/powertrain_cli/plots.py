"""Draws a measured table with its front, presets and budget into an SVG or PNG file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from powertrain_cli.errors import CliError, Exit
from powertrain_cli.scatter import Scatter

FORMATS = (".svg", ".png")

_CLOUD, _FRONT, _PRESET, _BUDGET, _BEST = "#b5bdc6", "#1f5fa8", "#b35c00", "#b3261e", "#1b7f3b"


def check_target(path: Path) -> None:
    """Refuse a file name that can't become a picture, before any work is done."""
    if path.suffix.lower() not in FORMATS:
        raise CliError(f"can't draw {path}: the name must end in {' or '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise CliError(f"can't draw {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise CliError(f"can't draw {path}: it is a folder")


def draw(scatter: Scatter, path: Path) -> None:
    """Write the picture."""
    with warnings.catch_warnings():
        # Building the font cache on the first run is nothing a user should read about.
        warnings.simplefilter("ignore")
        try:
            from matplotlib import rc_context
            from matplotlib.figure import Figure
        except ImportError:
            raise CliError("plots need matplotlib: pip install '.[cli]' in a checkout", Exit.ENVIRONMENT) from None
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "powertrain", "font.size": 10}):
            figure = Figure(figsize=(8, 5), layout="constrained")
            _fill(figure.subplots(), scatter)
            # Without a date the same data give the same file.
            metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
            figure.savefig(path, dpi=144, metadata=metadata)


def _fill(axes: Any, scatter: Scatter) -> None:
    count = f"{len(scatter.step_ms):,} measured modes"
    axes.scatter(scatter.step_ms, scatter.power_w, s=9, color=_CLOUD, linewidths=0, label=count, rasterized=True)
    # A step, because between two modes of the front there is nothing: the slower one is what a budget in between gets.
    axes.plot(scatter.front_ms, scatter.front_w, color=_FRONT, linewidth=1.2, drawstyle="steps-post", zorder=3)
    axes.plot(
        [], [], color=_FRONT, marker="o", markersize=4, linewidth=1.2, label=f"front, {len(scatter.front_ms)} modes"
    )
    axes.scatter(scatter.front_ms, scatter.front_w, s=14, color=_FRONT, zorder=4)
    if scatter.budget_w is not None:
        axes.axhline(
            scatter.budget_w, color=_BUDGET, linewidth=1.2, linestyle="--", label=f"budget {scatter.budget_w:g} W"
        )
    _presets(axes, scatter)
    if scatter.best is not None:
        best = scatter.best
        label = f"fastest within the budget:\n{best.name}, {best.step_ms:.4g} ms, {best.power_w:.1f} W"
        ring = {"s": 150, "facecolors": "none", "edgecolors": _BEST, "linewidths": 2, "zorder": 6}
        axes.scatter([best.step_ms], [best.power_w], label=label, **ring)
    _axes(axes, scatter)


def _presets(axes: Any, scatter: Scatter) -> None:
    if not scatter.presets:
        return
    marker = {"s": 48, "marker": "D", "color": _PRESET, "edgecolors": "white", "linewidths": 0.8, "zorder": 5}
    axes.scatter(
        [point.step_ms for point in scatter.presets],
        [point.power_w for point in scatter.presets],
        label="NVIDIA's presets (≈: nearest measured)",
        **marker,
    )
    box = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
    style = {"textcoords": "offset points", "fontsize": 8.5, "color": _PRESET, "bbox": box, "zorder": 6}
    for point in scatter.presets:
        name = point.name if point.exact else f"≈ {point.name}"
        axes.annotate(name, (point.step_ms, point.power_w), xytext=(7, 5), **style)


def _axes(axes: Any, scatter: Scatter) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    wide = scatter.step_ms.max() > 20 * scatter.step_ms.min()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if wide else (1, 1.5, 2, 3, 4, 5, 7)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step time, ms (log scale)")
    axes.set_ylabel("power, W")
    axes.set_title(scatter.title, fontsize=11, loc="left")
    axes.grid(visible=True, which="major", color="#e3e6ea", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper right", fontsize=8.5, framealpha=0.92, edgecolor="#d0d4da")
