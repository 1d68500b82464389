"""What an idle agent costs: CPU time and memory of the real process, sampling power at 10 Hz with no job on the board.

    python benchmarks/idle_agent.py [--seconds 60] [--board orin-agx]

The agent reads a tree of plain files in memory (it does not simulate), so this is the cost of the code alone; a real
INA3221 adds about 0.5 ms of waiting per file. Promised: less than 1 % of one core, less than 90 MiB, no scipy.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sampling import cpu_s, resident_mib

from powertrain_agent.simulate import SimulatedBoard

MOST_SHARE, MOST_MIB = 0.01, 90.0


def main() -> int:
    """Start an agent, let it settle, watch it for a while; 1 if a promise is broken."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--board", default="orin-agx")
    arguments = options.parse_args()
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="powertrain-", dir=memory if memory.is_dir() else None))
    SimulatedBoard.create(root / "host", arguments.board)
    command = [sys.executable, "-m", "powertrain_agent.main", "--standalone", "--metrics-port", "0"]
    with subprocess.Popen([*command, "--host-root", str(root / "host")], stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stderr is not None
        while json.loads(agent.stderr.readline())["event"] != "ready":
            pass
        time.sleep(3.0)
        before_s, began_s = cpu_s(agent.pid), time.monotonic()
        time.sleep(arguments.seconds)
        share = (cpu_s(agent.pid) - before_s) / (time.monotonic() - began_s)
        mib = resident_mib(agent.pid)
        maps = Path(f"/proc/{agent.pid}/maps").read_text(encoding="utf-8")
        agent.terminate()
    shutil.rmtree(root)
    loaded = [name for name in ("scipy", "torch", "sklearn") if f"/{name}/" in maps]
    print("| an idle agent, 10 readings a second | measured | promised |\n|---|---|---|")
    print(f"| share of one core | {share:.2%} | < {MOST_SHARE:.0%} |")
    print(f"| resident memory | {mib:.0f} MiB | < {MOST_MIB:.0f} MiB |")
    print(f"| heavy libraries loaded | {', '.join(loaded) or 'none'} | none |")
    return int(share >= MOST_SHARE or mib >= MOST_MIB or bool(loaded))


if __name__ == "__main__":
    sys.exit(main())
