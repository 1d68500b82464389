"""How figures look: colours that colour-blind readers can tell apart (Okabe and Ito), markers, and files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

# strategy → colour, marker, line
LOOKS = {
    "transfer": ("#0072B2", "o", "-"),
    "transfer, 50": ("#0072B2", "o", "-"),
    "powertrain": ("#D55E00", "s", "-"),
    "powertrain-head-first": ("#E69F00", "D", "--"),
    "nn": ("#000000", "^", "--"),
    "linear": ("#999999", "x", ":"),
    "tree": ("#56B4E9", "v", ":"),
    "forest": ("#009E73", "P", "-."),
    "mlp": ("#CC79A7", "*", "-."),
    "ucb": ("#8C6D1F", "h", "--"),
}
PLAIN = "#7A7A7A"


def apply() -> None:
    """Set fonts, grid and everything that makes two runs write the same bytes."""
    plt.rcParams.update(
        {
            "svg.hashsalt": "powertrain",
            "font.size": 9,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.constrained_layout.use": True,
            "legend.frameon": False,
            "legend.fontsize": 8,
        }
    )


def look(strategy: str) -> dict[str, Any]:
    """Return colour, marker and line of a strategy."""
    colour, marker, line = LOOKS.get(strategy, (PLAIN, "o", "-"))
    return {"color": colour, "marker": marker, "linestyle": line}


def plain_log(axis: Any, ticks: list[float]) -> None:
    """Make an axis logarithmic with numbers that people read."""
    axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    axis.set_minor_locator(matplotlib.ticker.NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def log_ticks(low: float, high: float) -> list[float]:
    """Return some plain numbers for a logarithmic axis: even steps on a short one, fewer a decade on a long one."""
    if high / low < 4:
        places = matplotlib.ticker.MaxNLocator(6).tick_values(low, high)
        return [float(tick) for tick in places if low <= tick <= high]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 3, 5, 7) if high / low < 20 else (1, 2, 5)
    ticks = [digit * 10.0**power for power in decades for digit in digits]
    return [tick for tick in ticks if low <= tick <= high]


def save(figure: Any, path: Path) -> None:
    """Write a figure as SVG without a date, and close it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
