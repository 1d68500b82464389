"""Draws proxy → target matrices as heat maps, one per limit, into an SVG or PNG file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from powertrain_cli.errors import CliError, Exit

Matrix = Mapping[str, Mapping[str, float]]
LARGEST = 20.0  # %: beyond this every cell is as dark as it gets


def draw_matrices(matrices: Mapping[str, Matrix], title: str, path: Path) -> None:
    """Write the picture: rows are proxies, columns targets, cells % over the fastest configuration."""
    with warnings.catch_warnings():
        # Building the font cache on the first run is nothing a user should read about.
        warnings.simplefilter("ignore")
        try:
            from matplotlib import rc_context
            from matplotlib.figure import Figure
        except ImportError:
            raise CliError("plots need matplotlib: pip install '.[cli]' in a checkout", Exit.ENVIRONMENT) from None
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "powertrain", "font.size": 10}):
            names = list(next(iter(matrices.values())))
            side = 1.1 + 0.75 * len(names)
            figure = Figure(figsize=(1.2 + side * len(matrices), side + 0.9), layout="constrained")
            panels = figure.subplots(1, len(matrices), squeeze=False)[0]
            for axes, (limit, matrix) in zip(panels, matrices.items(), strict=True):
                image = _fill(axes, names, matrix, limit)
            panels[0].set_ylabel("proxy")
            figure.colorbar(image, ax=list(panels), label="% over the fastest", shrink=0.8, extend="max")
            figure.suptitle(title, fontsize=11)
            metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
            figure.savefig(path, dpi=144, metadata=metadata)


def _fill(axes: Any, names: list[str], matrix: Matrix, limit: str) -> Any:
    values = np.array([[matrix[proxy][target] for target in names] for proxy in names])
    image = axes.imshow(np.where(np.isfinite(values), values, LARGEST), cmap="YlOrBr", vmin=0, vmax=LARGEST)
    for row, column in np.ndindex(values.shape):
        value = values[row, column]
        text = "–" if np.isnan(value) else "∞" if np.isinf(value) else f"{value:.1f}"
        dark = np.isfinite(value) and value > 0.6 * LARGEST
        axes.text(column, row, text, ha="center", va="center", color="white" if dark else "black")
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("target")
    axes.set_title(limit, fontsize=10)
    for side in axes.spines.values():
        side.set_visible(False)
    return image
