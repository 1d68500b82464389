"""What one power reading costs: the agent's sysfs source against jtop's own service on the same simulated tree.

    python benchmarks/sampling.py [--seconds 10] [--board orin-agx] [--json]

The tree lies in memory and every file is a plain one, so this is the cost of the code alone; a real INA3221 adds about
0.5 ms of waiting per file to both. jtop's service runs unchanged in a mount namespace of its own (jtop_namespace.py)
and samples everything it shows, not only power, so its figure is the price of the service, not of one sensor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from powertrain_agent.hardware.board import discover
from powertrain_agent.simulate import SimulatedBoard
from powertrain_agent.sysfs import Sysfs
from powertrain_agent.telemetry import SysfsSource
from powertrain_agent.telemetry.jtop_source import JtopSource

HERE = Path(__file__).resolve().parent
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
JTOP_INTERVAL_S = 0.5


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def descendants(pid: int) -> list[int]:
    """Return a process and everything below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [pid, *(descendant for child in children for descendant in descendants(int(child)))]


def measure_sysfs(root: Path, seconds: float, period_s: float | None, timeout_s: float | None) -> dict[str, object]:
    """Read the total in a loop, or (with a period) at that pace, and return the cost of one reading."""
    sysfs = Sysfs(root) if timeout_s is None else Sysfs(root, timeout_s)
    if timeout_s is None:
        sysfs.timeout_s = None
    source = SysfsSource(sysfs, discover(sysfs).sensors)
    source.read()
    readings, started_s, started_cpu_s = 0, time.perf_counter(), time.process_time()
    while (elapsed_s := time.perf_counter() - started_s) < seconds:
        source.read()
        readings += 1
        if period_s is not None:
            time.sleep(max(0.0, readings * period_s - (time.perf_counter() - started_s)))
    cpu_ms = 1e3 * (time.process_time() - started_cpu_s) / readings
    wall_ms = None if period_s else 1e3 * elapsed_s / readings
    return {"readings": readings, "cpu_ms": cpu_ms, "wall_ms": wall_ms, "mib": resident_mib(os.getpid())}


def measure_jtop(seconds: float) -> dict[str, object]:
    """Be a client of the service (inside its namespace) and return what service and client cost per sample."""
    source = JtopSource(interval_s=JTOP_INTERVAL_S)
    source.read()
    service = [pid for pid in descendants(os.getppid()) if pid not in (os.getpid(), os.getppid())]
    started_s, service_s, client_s = time.perf_counter(), sum(map(cpu_s, service)), time.process_time()
    readings = 0
    while time.perf_counter() - started_s < seconds:
        source.read()
        readings += 1
    result = {
        "readings": readings,
        "cpu_ms": 1e3 * (sum(map(cpu_s, service)) - service_s) / readings,
        "client_cpu_ms": 1e3 * (time.process_time() - client_s) / readings,
        "mib": sum(map(resident_mib, service)),
    }
    source.close()
    return result


def run_jtop(root: Path, seconds: float) -> dict[str, object] | str:
    """Measure the service in its namespace; return the reason where that can't be done."""
    command = [sys.executable, str(HERE / "jtop_namespace.py"), str(root)]
    client = [sys.executable, str(HERE / "sampling.py"), "--inside", "--seconds", str(seconds)]
    ran = subprocess.run([*command, *client], capture_output=True, text=True, check=False)
    if ran.returncode:
        return (ran.stderr.strip().splitlines() or ["no message"])[-1]
    figures: dict[str, object] = json.loads(ran.stdout.strip().splitlines()[-1])
    return figures


def report(board: str, seconds: float) -> dict[str, dict[str, object] | str]:
    """Measure everything on one tree."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        root = Path(directory)
        simulated = SimulatedBoard.create(root, board)
        simulated.load("resnet18")
        simulated.refresh()
        return {
            "sysfs, back to back": measure_sysfs(root, seconds / 2, None, None),
            "sysfs with time limits, back to back": measure_sysfs(root, seconds / 2, None, 2.0),
            "sysfs with time limits, at 10 Hz": measure_sysfs(root, seconds, 0.1, 2.0),
            f"jtop service, every {JTOP_INTERVAL_S} s": run_jtop(root, seconds),
        }


def print_table(figures: dict[str, dict[str, object] | str]) -> None:
    """Print the results as Markdown."""
    print("| source | CPU ms a reading | wall ms a reading | CPU if read at 10 Hz | memory MiB |")
    print("|---|---|---|---|---|")
    for name, result in figures.items():
        if isinstance(result, str):
            print(f"| {name} | not measured: {result} | | | |")
            continue
        cpu_ms, wall_ms = float(str(result["cpu_ms"])), result.get("wall_ms")
        wall = f"{float(str(wall_ms)):.3f}" if wall_ms else "–"
        print(f"| {name} | {cpu_ms:.3f} | {wall} | {cpu_ms:.2f} % of a core | {float(str(result['mib'])):.0f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--board", default="orin-agx")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(measure_jtop(options.seconds)))
    elif options.json:
        print(json.dumps(report(options.board, options.seconds), indent=2))
    else:
        print_table(report(options.board, options.seconds))
