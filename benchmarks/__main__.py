"""`make bench`: runs every benchmark, prints its table, writes JSON where it has some, and says which promises were
missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
# name → arguments; each script or package explains itself in its first lines and ends with 1 if a promise is broken.
BENCHMARKS = {
    "core_speed": [],
    "learning_speed": ["--out", str(RESULTS / "learning_speed.json")],
    "accuracy": ["--out", str(RESULTS / "accuracy.json")],
    "batch_size": ["--seeds", "1", "--out", str(RESULTS / "batch_size.json")],
    "batch_cost": [],
    "sampling": [],
    "simulator": [],
    "sdk": [],
    "idle_agent": [],
    "image_sizes": [],
    "online_session": ["--out", str(RESULTS / "online_session.json")],
    "site_budget": ["--out", str(RESULTS / "site_budget.json")],
    "many_nodes": ["--out", str(RESULTS / "many_nodes.json"), "--svg", str(RESULTS / "many_nodes.svg")],
}


def program(name: str) -> list[str]:
    """Return how Python runs a benchmark: a script, or a package."""
    return ["-m", f"benchmarks.{name}"] if (HERE / name).is_dir() else [str(HERE / f"{name}.py")]


def main(names: list[str]) -> int:
    """Run the named benchmarks, all by default."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    missed = []
    for name in names or BENCHMARKS:
        print(f"\n## {name}\n", flush=True)
        command = [sys.executable, *program(name), *BENCHMARKS[name]]
        if subprocess.run(command, env=environment, cwd=HERE.parent, check=False).returncode:
            missed.append(name)
    print(f"\nmissed promises: {', '.join(missed) or 'none'}; JSON in {RESULTS.relative_to(HERE.parent)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
