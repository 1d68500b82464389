"""Figures of the page "Choosing settings", and of the presets' labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from benchmarks.evaluate import plan
from benchmarks.evaluate.results import Results
from benchmarks.evaluate.stepped import unread_pct
from benchmarks.evaluate.style import look, plain_log, save
from benchmarks.evaluate.tables import Store, origin

from powertrain import devices
from powertrain.evaluation import knob_worth, preset_watts

SIZE = (8.2, 3.1)
# Markers are not clipped: zero is a value that occurs, and half a marker looks like a mistake.
TIME = {"color": "#0072B2", "marker": "o", "clip_on": False}
POWER = {"color": "#D55E00", "marker": "s", "linestyle": "--", "clip_on": False}
THIRD = {"color": "#009E73", "marker": "^", "linestyle": ":", "clip_on": False}
WORKLOADS = {"ResNet": plan.RESNET, "LSTM": plan.LSTM, "MobileNet": plan.MOBILENET, "YOLO": plan.YOLO,
             "BERT": plan.BERT}  # fmt: skip


def reference_sizes(results: Results, path: Path) -> None:
    """Draw the error on LSTM against the number of modes of the reference."""
    study = plan.reference_sizes()
    sizes = sorted({rows for _, rows in study})
    figure, axes = plt.subplots(1, 2, figsize=SIZE)
    for strategy, count in (("transfer", 20), ("powertrain", 50)):
        summaries = [results.summary(study[strategy, rows], count) for rows in sizes]
        if None in summaries:
            return
        for axis, key in zip(axes, ("mape_time_pct", "mape_power_pct"), strict=True):
            _curve(
                axis, sizes, [entry[key] for entry in summaries if entry], f"{strategy}, {count} modes", look(strategy)
            )
    for axis, name in zip(axes, ("step time", "power"), strict=True):
        axis.set(xscale="log", xlabel="modes of the reference", ylabel=f"mean error of {name}, %", ylim=(0, None))
        plain_log(axis.xaxis, [float(rows) for rows in sizes])
    axes[0].legend()
    figure.suptitle("LSTM (measured) from ResNet: how large must a reference be?")
    save(figure, path)


def profiled_modes(results: Results, path: Path) -> None:
    """Draw penalty and minutes against the number of profiled modes."""
    study = plan.profiled_modes()
    all_summaries = [results.summary(cells, n) for n, cells in study.items()]
    if None in all_summaries:
        return
    summaries = [entry for entry in all_summaries if entry is not None]
    figure, (left, right) = plt.subplots(1, 2, figsize=SIZE)
    left.plot(list(study), [entry["penalty_binding_pct"]["median"] for entry in summaries], label="median", **TIME)
    left.plot(
        list(study), [entry["penalty_binding_pct"]["p90"] for entry in summaries], label="90th percentile", **POWER
    )
    left.set(xlabel="profiled modes", ylabel="penalty, %", ylim=(0, None))
    left.legend()
    right.plot(list(study), [entry["profiling_minutes"] for entry in summaries], **TIME)
    right.set(xlabel="profiled modes", ylabel="profiling, minutes", ylim=(0, None))
    figure.suptitle(
        "LSTM (measured), reference ResNet, transfer with two checks: choices under binding budgets of 17–50 W"
    )
    save(figure, path)


def steps(results: Results, store: Store, path: Path) -> None:
    """Draw error, and the modes whose steps are over before a reading, against the steps that each mode runs."""
    study, table = plan.steps_per_mode(plan.SHORT_STEPS), store.table(plan.SHORT_STEPS)
    styles = (TIME, POWER, THIRD)
    figure, axes = plt.subplots(1, 3, figsize=(10.0, 3.4))
    for (period_s, jitter), style, aside in zip(plan.MEASUREMENTS, styles, (-0.4, 0.0, 0.4), strict=True):
        summaries = [results.summary(study[period_s, jitter, n], 20) for n in plan.STEPS]
        if None in summaries:
            return
        at = [n + aside for n in plan.STEPS]  # so that whiskers do not hide each other
        label = f"a reading each {period_s:g} s, steps scatter by {100 * jitter:g} %"
        for axis, key in zip(axes, ("mape_time_pct", "mape_power_pct"), strict=False):
            _curve(axis, at, [entry[key] for entry in summaries if entry], label, style)
    for period_s, style in ((0.1, TIME), (1.0, POWER)):
        axes[2].plot(plan.STEPS, [unread_pct(table, n, period_s) for n in plan.STEPS], **style)
    for axis, name in zip(axes, ("mean error of step time, %", "mean error of power, %", "modes without a reading, %"),
                          strict=True):  # fmt: skip
        axis.set(xlabel="steps per mode", ylabel=name, ylim=(0, None), xticks=plan.STEPS)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle("LSTM (simulated), reference ResNet, transfer with 20 modes: steps per mode")
    save(figure, path)


def noise(results: Results, path: Path) -> None:
    """Draw penalty and broken budgets against measurement noise."""
    study = plan.noises()
    all_summaries = [results.summary(cells, 20) for cells in study.values()]
    if None in all_summaries:
        return
    summaries = [entry for entry in all_summaries if entry is not None]
    percent = [100 * level for level in study]
    figure, (left, right) = plt.subplots(1, 2, figsize=SIZE)
    left.plot(percent, [entry["penalty_binding_pct"]["median"] for entry in summaries], label="median", **TIME)
    left.plot(percent, [entry["penalty_binding_pct"]["p90"] for entry in summaries], label="90th percentile", **POWER)
    left.set(xlabel="noise of a measurement, %", ylabel="penalty, %", ylim=(0, None))
    left.legend()
    excess = [results.excess(cells, 20) for cells in study.values()]
    right.plot(percent, [e.over_pct if e else 0.0 for e in excess], label="over budget", **TIME)
    right.plot(percent, [e.over_1w_pct if e else 0.0 for e in excess], label="by more than 1 W", **POWER)
    right.axhline(5, color="#444444", linewidth=0.8, linestyle=":")
    right.text(percent[-1], 5.1, "accepted risk", ha="right", va="bottom", fontsize=8)
    right.set(xlabel="noise of a measurement, %", ylabel="choices over budget, %", ylim=(0, None))
    right.legend()
    figure.suptitle("LSTM (measured) with noise added, reference ResNet, transfer with 20 modes and two checks")
    save(figure, path)


def prior_widths(results: Results, path: Path) -> None:
    """Draw the error against the width of the prior."""
    study = plan.prior_widths()
    widths = sorted({width for _, width in study})
    names = {plan.LSTM: "ResNet → LSTM", plan.MOBILENET: "ResNet → MobileNet",
             plan.XAVIER[0]: "LSTM → ResNet on Xavier AGX"}  # fmt: skip
    styles = (TIME, POWER, THIRD)
    figure, axes = plt.subplots(1, 2, figsize=SIZE)
    for (target, name), style in zip(names.items(), styles, strict=True):
        summaries = [results.summary(study[target, width], 10) for width in widths]
        if None in summaries:
            continue
        for axis, key in zip(axes, ("mape_time_pct", "mape_power_pct"), strict=True):
            _curve(axis, widths, [entry[key] for entry in summaries if entry], f"{name} ({origin(target)})", style)
    for axis, name in zip(axes, ("step time", "power"), strict=True):
        axis.set(xscale="log", xlabel="width of the prior (1: as shipped)", ylabel=f"mean error of {name}, %")
        axis.set_ylim(0, None)
        plain_log(axis.xaxis, widths)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle("transfer with 10 modes: how far may a workload differ from its reference?")
    save(figure, path)


def knobs(store: Store, budgets_w: Sequence[float], path: Path) -> None:
    """Draw what it costs at the true optimum to leave knobs at their maximum."""
    tables = {name: table for name, table in WORKLOADS.items() if store.missing(table) is None}
    worth = {name: knob_worth(store.table(table), budgets_w) for name, table in tables.items()}
    figure, axis = plt.subplots(figsize=(8.2, 3.3))
    kinds = ("all cores online", "memory at maximum", "GPU clock alone")
    looks = (("#0072B2", ""), ("#E69F00", "//"), ("#999999", ".."))
    for place, (kind, (colour, hatch)) in enumerate(zip(kinds, looks, strict=True)):
        at = np.arange(len(worth)) + (place - 1) * 0.27
        medians = [quantiles.get(kind, {}).get("median", 0.0) for quantiles in worth.values()]
        tops = [quantiles.get(kind, {}).get("p90", 0.0) for quantiles in worth.values()]
        above = [np.zeros(len(at)), np.maximum(0.0, np.array(tops) - medians)]
        # Whiskers have the knob's colour: where the median is 0 there is no bar to tell them by.
        axis.bar(at, medians, 0.25, yerr=above, color=colour, ecolor=colour, hatch=hatch, edgecolor="black",
                 linewidth=0.4, capsize=3, label=kind)  # fmt: skip
    axis.set_xticks(range(len(worth)), [f"{name}\n({origin(tables[name])})" for name in worth])
    axis.set_yscale("symlog", linthresh=1.0)
    plain_log(axis.yaxis, [0, 1, 2, 5, 10, 20, 50, 100, 200, 500])
    axis.set(ylabel="extra time, %\n(bar: median, whisker: p90)", ylim=(0, 300))
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle("The truly best mode under budgets of 17–50 W, with knobs left at their maximum")
    save(figure, path)


def presets(store: Store, path: Path) -> None:
    """Draw the labels of NVIDIA's presets beside what they take."""
    tables = {name: table for name, table in WORKLOADS.items() if store.missing(table) is None}
    device = devices.get("orin-agx")
    entries_of = {name: preset_watts(store.table(table), device) for name, table in tables.items()}
    labels = [entry["label_w"] for entry in next(iter(entries_of.values()))]
    figure, axis = plt.subplots(figsize=(8.2, 3.0))
    colours = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7")
    for place, (name, entries) in enumerate(entries_of.items()):
        at = np.arange(len(labels)) + (place - (len(entries_of) - 1) / 2) * 0.15
        bars = axis.bar(at, [entry["power_w"] for entry in entries], 0.14, color=colours[place], edgecolor="black",
                        linewidth=0.4, label=f"{name} ({origin(tables[name])})")  # fmt: skip
        # Inside the bars: above them the line of the label would strike the figures through.
        axis.bar_label(bars, [f"{entry['power_w']:.1f}" for entry in entries], fontsize=7, label_type="center",
                       bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0})  # fmt: skip
    for place, label in enumerate(labels):
        axis.hlines(label, place - 0.45, place + 0.45, color="black", linewidth=1.4)
    axis.set_xticks(range(len(labels)), [f"preset of {label:g} W" for label in labels])
    axis.set(ylabel="power, W (line: the label)")
    axis.grid(visible=False, axis="x")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.suptitle("AGX Orin: NVIDIA's presets while training, beside their labels")
    save(figure, path)


def _curve(
    axis: Any, at: Sequence[float], summaries: list[dict[str, float]], label: str, style: dict[str, Any]
) -> None:
    median = np.array([entry["median"] for entry in summaries])
    spread = np.abs(np.array([[entry["q1"], entry["q3"]] for entry in summaries]).T - median)
    axis.errorbar(at, median, spread, label=label, capsize=2, markersize=5, linewidth=1.2, **style)
