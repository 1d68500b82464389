"""Figures of errors, choices and fronts, after the first paper's Fig. 7, 8 and 10 to 13."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from benchmarks.evaluate import plan
from benchmarks.evaluate.plan import Cell
from benchmarks.evaluate.results import Results
from benchmarks.evaluate.style import log_ticks, look, plain_log, save
from benchmarks.evaluate.tables import SHIPPED, origin
from benchmarks.evaluate.work import ZOOM_W
from matplotlib.ticker import MaxNLocator

TITLES = {plan.LSTM: "LSTM", plan.RESNET: "ResNet", plan.MOBILENET: "MobileNet"}
NAMES = {SHIPPED: "ResNet", plan.LSTM: "LSTM"}  # of references
# label → where its cells are, and at how many modes
CHOOSERS = {
    "transfer, 20 + 2 checks": ("transfer", 20),
    "transfer, 50 + 2 checks": ("transfer, 50", 50),
    "powertrain, 50": ("powertrain", 50),
    "powertrain-head-first, 50": ("powertrain-head-first", 50),
    "nn, 50": ("nn", 50),
    "mlp, 50": ("mlp", 50),
    "forest, 50": ("forest", 50),
    "tree, 50": ("tree", 50),
    "linear, 50": ("linear", 50),
    "ucb, 50": ("ucb", 50),
    "random-pareto, 50": ("random-pareto", 50),
    "preset": ("preset", 1),
    "maxn": ("maxn", 1),
}
# file name's part → strategies in one picture, and whether their zooms have common axes
FRONTS = {
    "": (("transfer", "powertrain", "powertrain-head-first", "nn", "random-pareto"), True),
    "-others": (("linear", "tree", "forest", "mlp", "ucb"), False),
}
PLAIN_LINE = "#444444"
# strategies whose minutes are drawn, each for a way to pick modes → what that is called
PICKERS = {"transfer": "transfer", "powertrain": "random modes (all others)", "ucb": "ucb"}
ASIDE = 1.012  # so that whiskers at one number of modes do not hide each other; the axis is logarithmic
# what is marked in a zoom → label and look; the true choice lies over the foretold one where both are the same
MARKS = {
    "best": (f"best within {ZOOM_W:g} W", {"marker": "*", "color": "#009E73", "markersize": 14}),
    "predicted": ("choice, as predicted", {"marker": "o", "color": "#E69F00", "markersize": 9}),
    "observed": ("choice, as observed", {"marker": "D", "color": "#D55E00", "markersize": 5.5}),
}


def errors(results: Results, target: str, path: Path) -> None:
    """Draw error of time and power and the minutes of profiling against the number of modes."""
    figure, (time_axis, power_axis, minutes_axis) = plt.subplots(1, 3, figsize=(10.5, 3.9))
    for place, (strategy, cells) in enumerate(plan.curve(target).items()):
        points = [(n, results.summary(cells, n)) for n in cells[0].samples]
        summaries = [(n, summary) for n, summary in points if summary is not None]
        if not summaries:
            continue
        at = [n * ASIDE ** (place - 4) for n, _ in summaries]
        for axis, key in ((time_axis, "mape_time_pct"), (power_axis, "mape_power_pct")):
            _with_quartiles(axis, at, [summary[key] for _, summary in summaries], strategy, strategy)
        if strategy in PICKERS:
            minutes = [results.minutes(cells, n) for n, _ in summaries]
            _with_quartiles(minutes_axis, at, minutes, strategy, PICKERS[strategy])
    for axis, name in ((time_axis, "step time"), (power_axis, "power")):
        axis.set(xscale="log", yscale="log", xlabel="profiled modes", ylabel=f"mean error of {name}, %")
        plain_log(axis.yaxis, [1, 2, 3, 5, 10, 20, 30, 50, 100])
    minutes_axis.set(xscale="log", xlabel="profiled modes", ylabel="profiling, minutes", ylim=(0, None))
    minutes_axis.legend()
    for axis in (time_axis, power_axis, minutes_axis):
        plain_log(axis.xaxis, [float(n) for n in plan.CURVE])
    figure.legend(*time_axis.get_legend_handles_labels(), loc="outside lower center", ncols=9, columnspacing=1.0)
    figure.suptitle(f"{_titled(target)}: error over unseen modes, median and quartiles of the seeds")
    save(figure, path)


def penalties(results: Results, target: str, path: Path) -> None:
    """Draw the penalties of choices that keep their budget as boxes, with the share of those that do not."""
    choosers = [(label, cells, n) for label, cells, n in _choosers(target) if results.binding(cells, n)]
    figure, axis = plt.subplots(figsize=(8.2, max(2.5, 0.36 * len(choosers) + 1.3)))
    for place, (label, cells, n) in enumerate(choosers):
        colour = look(_look_of(label))["color"]
        within_budget = results.penalties(cells, n)
        if within_budget:
            axis.boxplot(
                [within_budget], positions=[place], orientation="horizontal", widths=0.6, whis=(5, 95),
                showfliers=False, patch_artist=True, boxprops={"facecolor": colour, "alpha": 0.45},
                medianprops={"color": "black", "linewidth": 1.6},
            )  # fmt: skip
        else:
            axis.text(0.02, place, "none keeps its budget", transform=axis.get_yaxis_transform(), va="center")
        excess = results.excess(cells, n)
        assert excess is not None
        axis.text(1.01, place, f"{excess.over_pct:.0f} %", transform=axis.get_yaxis_transform(), va="center")
    axis.set_yticks(range(len(choosers)), [label for label, _, _ in choosers])
    axis.set_ylim(len(choosers) - 0.4, -0.6)
    axis.set_xscale("symlog", linthresh=1.0)
    axis.set_xlim(left=-0.04)  # a median of 0 would lie on the axis
    axis.set_xlabel("penalty: slower than the best mode within the budget, % (linear up to 1)\n"
                    "box: quartiles and median; whiskers: 5th and 95th percentile")  # fmt: skip
    plain_log(axis.xaxis, [0, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500])
    axis.text(1.01, -0.75, "over budget", transform=axis.get_yaxis_transform(), va="center", fontsize=8)
    axis.set_title(
        f"{_titled(target)}: choices that keep their binding budget (17–50 W)", loc="left", fontsize=9, pad=14
    )
    save(figure, path)


def excess_bars(results: Results, target: str, path: Path) -> None:
    """Draw mean excess power, A/L and A/L+1."""
    all_bars = [(label, results.excess(cells, n)) for label, cells, n in _choosers(target)]
    known_bars = [(label, excess) for label, excess in all_bars if excess is not None and label != "maxn"]
    figure, axes = plt.subplots(1, 3, figsize=(9.5, max(2.5, 0.3 * len(known_bars) + 1.3)), sharey=True)
    panels = (
        ("area: mean excess, W", [e.area_w for _, e in known_bars], "{:.2f}"),
        ("A/L: over budget, % of choices", [e.over_pct for _, e in known_bars], "{:.0f}"),
        ("A/L+1: over by more than 1 W, %", [e.over_1w_pct for _, e in known_bars], "{:.0f}"),
    )
    for axis, (title, values, form) in zip(axes, panels, strict=True):
        colours = [look(_look_of(label))["color"] for label, _ in known_bars]
        bars = axis.barh(range(len(known_bars)), values, color=colours, alpha=0.8)
        axis.bar_label(bars, [form.format(value) for value in values], padding=3, fontsize=8)
        axis.set_xlim(0, max(*values, 0.1) * 1.2)
        axis.set_xlabel(title)
        axis.grid(visible=False, axis="y")
    axes[0].set_yticks(range(len(known_bars)), [label for label, _ in known_bars])
    axes[0].invert_yaxis()
    title = f"{_titled(target)}: excess power under binding budgets of 17–50 W; maxn, always over, is in the table"
    figure.suptitle(title, fontsize=9)
    save(figure, path)


def fronts(results: Results, target: str, strategies: tuple[str, ...], together: bool, path: Path) -> None:
    """Draw observed, predicted and truly reached front of each strategy, whole and near one budget.

    Zooms have common axes (together), or each its own: one choice that is far off would make the others' picture small.
    """
    cells = plan.fronts(target)
    front_of = {name: results.cells.get(cells[name]) for name in strategies}
    if any(front is None for front in front_of.values()):
        return
    figure, axes = plt.subplots(2, len(front_of), figsize=(11.0, 6.2))
    all_fronts = list(front_of.values())
    limits = [zoom_limits(all_fronts if together else [front], ZOOM_W) for front in all_fronts]
    for column, (strategy, front) in enumerate(front_of.items()):
        whole, zoom = axes[:, column]
        for axis in (whole, zoom):
            _front_lines(axis, front)
            axis.axvline(ZOOM_W, color=PLAIN_LINE, linewidth=0.8, linestyle=":", label=f"budget of {ZOOM_W:g} W")
        whole.set(title=f"{strategy}\n{front['samples']} modes", xlabel="power, W", yscale="log")
        whole.sharex(axes[0, 0])
        whole.sharey(axes[0, 0])
        _zoom(zoom, choice_at(front, ZOOM_W))
        xlim, ylim = limits[column]
        zoom.set(xlim=xlim, ylim=ylim, yscale="log")
        zoom.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        plain_log(zoom.yaxis, log_ticks(*ylim))
    plain_log(axes[0, 0].yaxis, log_ticks(*axes[0, 0].get_ylim()))
    axes[0, 0].set_ylabel("step time, ms")
    axes[1, 0].set_ylabel(f"step time, ms, near {ZOOM_W:g} W")
    figure.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=7, columnspacing=1.0)
    axes_differ = "" if together else "; each zoom has axes of its own"
    figure.suptitle(f"{_titled(target)}: three fronts of one profile (seed 0){axes_differ}")
    save(figure, path)


def choice_at(front: dict[str, Any], budget_w: float) -> dict[str, Any]:
    """Return what a strategy chose under a budget."""
    choice: dict[str, Any] = next(entry for entry in front["choices"] if entry["budget_w"] == budget_w)
    return choice


def zoom_limits(fronts_: list[dict[str, Any]], budget_w: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return limits of power (W) and step time (ms) that hold every choice, foretold and true, and the best mode.

    At least five watts on both sides of the budget are shown, with the observed front there. Predicted fronts may leave
    the picture: only choices count.
    """
    marked = [point for front in fronts_ for points in MARKS for point in choice_at(front, budget_w)[points]]
    low_w = min(budget_w - 5, *(point["power_w"] - 1 for point in marked))
    high_w = max(budget_w + 5, *(point["power_w"] + 1 for point in marked))
    near = [p for front in fronts_ for p in front["observed"] if abs(p["power_w"] - budget_w) <= 5]
    times_ms = [point["step_s"] * 1e3 for point in (*marked, *near)]
    margin = (max(times_ms) / min(times_ms)) ** 0.08 * 1.02  # the axis is logarithmic
    return (low_w, high_w), (min(times_ms) / margin, max(times_ms) * margin)


def _front_lines(axis: Any, front: dict[str, Any]) -> None:
    looks = {
        "observed": ("observed front", {"color": "#000000", "linewidth": 1.6}),
        "predicted": ("predicted front", {"color": "#E69F00", "linestyle": "--", "linewidth": 1.2}),
        "predicted_observed": (
            "the predicted front's modes, observed",
            {"color": "#0072B2", "marker": ".", "linestyle": "none"},
        ),
    }
    for key, (label, style) in looks.items():
        axis.plot(_column(front[key], "power_w"), _column(front[key], "step_s") * 1e3, label=label, **style)


def _zoom(axis: Any, choice: dict[str, Any]) -> None:
    for key, (label, style) in MARKS.items():
        power_w, step_ms = _column(choice[key], "power_w"), _column(choice[key], "step_s") * 1e3
        axis.plot(power_w, step_ms, linestyle="none", markeredgecolor="black", label=label, **style)
    axis.set(xlabel=f"power, W (zoom at {ZOOM_W:g} W)")


def _with_quartiles(axis: Any, at: list[float], quartiles: list[dict[str, float]], strategy: str, label: str) -> None:
    median = np.array([entry["median"] for entry in quartiles])
    spread = np.abs(np.array([[entry["q1"], entry["q3"]] for entry in quartiles]).T - median)
    axis.errorbar(at, median, spread, label=label, markersize=5, capsize=2, linewidth=1.2, **look(strategy))


def _choosers(target: str) -> list[tuple[str, list[Cell], int]]:
    cells = plan.choices(target)
    return [(label, cells[name], n) for label, (name, n) in CHOOSERS.items() if name in cells]


def _titled(target: str) -> str:
    return f"{TITLES[target]} ({origin(target)}), reference {NAMES[plan.unbiased(target)]}"


def _look_of(label: str) -> str:
    return CHOOSERS[label][0]


def _column(points: list[dict[str, float]], name: str) -> Any:
    return np.array([point[name] for point in points])
