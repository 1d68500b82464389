"""The evaluation's worker processes: none of them is left over."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUSY = """
import time
from benchmarks.evaluate import workers
with workers.pool(2) as pool:
    list(pool.map(abs, range(2)))
    both = [pool.submit(time.sleep, 600) for _ in range(2)]
    print("working", flush=True)
    both[0].result()
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(how):
    with subprocess.Popen([sys.executable, "-c", BUSY], cwd=ROOT, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "working\n"
        started.send_signal(how)
        # The pipe ends when the last process that holds it does.
        assert started.stdout.read() == ""
