"""How far the simulated workloads are from the open measurements and the papers' figures, as Markdown tables.

    python benchmarks/simulator.py [--data DIRECTORY]

The tables (orin-agx.train.resnet.csv and the like) are looked for in $POWERTRAIN_DATA, else beside the repository.
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path

import numpy as np

from powertrain import PowerMode, devices
from powertrain_agent.simulate import workloads

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
TABLES = {
    "resnet18": "orin-agx.train.resnet.csv",
    "lstm": "orin-agx.train.lstm.csv",
    "resnet18-inference": "orin-agx.infer.resnet.csv",
    "lstm-inference": "orin-agx.infer.lstm.csv",
}
MAXN = PowerMode(12, 2201600, 1300500000, 3199000000)
LOW = PowerMode(2, 268800, 114750000, 204000000)
XAVIER = PowerMode(8, 2265600, 1377000000, 2133000000)
# board, workload, mode, minutes an epoch, watts: as the first paper gives them
ANCHORS: list[tuple[str, str, PowerMode, float | None, float | None]] = [
    ("orin-agx", "mobilenet-v3", MAXN, 2.3, None),
    ("orin-agx", "resnet18", MAXN, 3.05, 51.1),
    ("orin-agx", "yolov8n", MAXN, 4.9, None),
    ("orin-agx", "bert", MAXN, 68.6, 57.0),
    ("orin-agx", "lstm", MAXN, 0.4, None),
    ("orin-agx", "resnet18", LOW, 112.0, 11.8),
    ("xavier-agx", "resnet18", XAVIER, 8.47, 36.4),
]


def errors(workload: str, table: Path) -> dict[str, tuple[float, float, float]]:
    """Return mean, median and 95th percentile of the relative error in percent, for time and power."""
    relative: dict[str, list[float]] = {"time": [], "power": []}
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            mode = PowerMode(*(int(row[knob]) for knob in ("cpu_cores", "cpu_khz", "gpu_hz", "emc_hz")))
            point = workloads.evaluate("orin-agx", workload, int(row["batch_size"]), mode)
            relative["time"].append(abs(1e3 * point.step_s / float(row["time_ms"]) - 1.0))
            relative["power"].append(abs(point.power_w / float(row["power_w"]) - 1.0))
    quantiles = {}
    for name, values in relative.items():
        percent = 100.0 * np.asarray(values)
        quantiles[name] = (float(percent.mean()), float(np.median(percent)), float(np.quantile(percent, 0.95)))
    return quantiles


def epoch_minutes(board: str, workload: str, mode: PowerMode) -> tuple[float, float]:
    """Return the minutes of an epoch at the usual batch size, and the watts."""
    work = workloads.get(workload)
    point = workloads.evaluate(board, workload, work.batch_size, mode)
    return point.step_s * work.samples_per_epoch / work.batch_size / 60.0, point.power_w


def print_errors(data: Path) -> None:
    """Print one row per open table."""
    print("| workload | rows | time: mean / median / p95 | power: mean / median / p95 |\n|---|---|---|---|")
    for workload, name in TABLES.items():
        table = data / name
        if not table.exists():
            print(f"| {workload} | {name} not found in {data} | | |")
            continue
        errors_pct = errors(workload, table)
        cells = [" / ".join(f"{value:.1f}" for value in errors_pct[kind]) for kind in ("time", "power")]
        print(f"| `{workload}` | {sum(1 for _ in table.open()) - 1} | {cells[0]} % | {cells[1]} % |")


def print_anchors() -> None:
    """Print one row per figure of the papers."""
    print("\n| board, workload, mode | minutes an epoch: paper / here | watts: paper / here |\n|---|---|---|")
    for board, workload, mode, minutes, watts in ANCHORS:
        here_min, here_w = epoch_minutes(board, workload, mode)
        print(f"| {board}, `{workload}`, {mode.human} | {minutes} / {here_min:.2f} | {watts or '–'} / {here_w:.1f} |")


def print_limits() -> None:
    """Print the Nano at the second paper's GPU clocks: its limits of 4.5 and 7 W must be worth having."""
    device = devices.get("nano")
    print("\n| Nano, all else at its maximum | " + " | ".join(f"batch {size}" for size in (4, 16, 64, 128)) + " |")
    print("|---|---|---|---|---|")
    for workload in ("resnet18-cifar", "mobilenet-v2", "efficientvit-m1", "char-transformer"):
        for gpu_hz in (307200000, 614400000, 921600000):
            mode = PowerMode(4, device.tables.cpu_khz.values[-1], gpu_hz, device.tables.emc_hz.values[-1])
            points = [(size, workloads.evaluate("nano", workload, size, mode)) for size in (4, 16, 64, 128)]
            cells = [f"{1e3 * point.step_s / size:.1f} ms a sample, {point.power_w:.1f} W" for size, point in points]
            print(f"| `{workload}`, {gpu_hz // 1000000} MHz | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POWERTRAIN_DATA", BESIDE)))
    print_errors(parser.parse_args().data)
    print_anchors()
    print_limits()
