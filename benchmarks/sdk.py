"""What SDK and agent cost a training: one call, one Python start, and a PyTorch loop beside a whole agent in a session.

    python benchmarks/sdk.py [--pairs 200] [--json]

Calls: CPU time of the calling thread, the smallest of several repeats (a busy machine adds, it never takes away).
The loop: blocks of a third of a second, with the hook on and the agent running, and with the hook off and the agent
stopped (SIGSTOP), in pairs of random order, so that what else the machine does meets both alike; the wall clock
counts. The agent guards a mode on a simulated board, which costs it more than a real one. Ends with 1 when a call
costs 5 µs or both together slow the loop by 1 % beyond doubt. Needs the nn extra for the loop.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import random
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

UID = "benchmark"
CALL_LIMIT_NS = 5000.0
LOOP_LIMIT = 0.01
BLOCK_S = 0.33  # holds three readings of the agent and more than ten datagrams
BOARD, SESSION = "orin-agx", "var/lib/powertrain/sessions"
BURST = 8  # the kernel may keep no more than ten datagrams


def nothing() -> None:
    """Be the yardstick: a call that does nothing."""


def cost_ns(function: Callable[[], object], calls: int, repeats: int = 9) -> float:
    """Return the CPU time of one call without the loop around it."""

    def run(body: Callable[[], object] | None) -> float:
        rounds = range(calls)
        started_ns = time.thread_time_ns()
        if body is None:
            for _ in rounds:
                pass
        else:
            for _ in rounds:
                body()
        return (time.thread_time_ns() - started_ns) / calls

    return min(run(function) for _ in range(repeats)) - min(run(None) for _ in range(repeats))


class Agent:
    """A whole agent in a process of its own, with a session that trains here; it can be stopped and let go on."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, __file__, "--agent", str(root)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._phases: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._wait_for("open")
        self._reader.start()

    def _wait_for(self, word: str) -> None:
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()).strip() != word:
            if not line:
                raise RuntimeError(f"the agent ended before it said {word!r}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._phases.extend(line.strip() for line in self._process.stdout)

    @property
    def runs(self) -> bool:
        """Say whether a mode is chosen and guarded."""
        return not self._reader.is_alive() or "running" in self._phases

    def let(self, run: bool) -> None:
        """Let it run, or stop it where it stands."""
        self._process.send_signal(signal.SIGCONT if run else signal.SIGSTOP)

    def end(self) -> None:
        """End it."""
        self.let(True)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def be_agent(root: Path) -> None:
    """Be that process: until its input ends."""
    from powertrain.api.v1alpha1 import SessionSpec, SessionStatus
    from powertrain_agent.main import open_runtime, parser
    from powertrain_agent.process import Process
    from powertrain_kube.log import Log

    said: set[str] = set()

    def report(status: SessionStatus, urgent: bool) -> None:
        now = {"open"} if status.gate_open else set()
        now |= {"running"} if status.phase.value == "Running" else set()
        for word in now - said:
            print(word, flush=True)
        said.update(now)

    spec = {
        "protocol": 1,
        "uid": UID,
        "job": {"namespace": "bench", "name": "sdk"},
        "limits": {"powerWatts": 30},
        "workload": {"name": "sdk"},
        # Nothing is tried after the choice: the blocks without the hook would look like a drift.
        "plan": {"strategy": "preset", "when": "Offline"},
    }
    options = parser().parse_args(["--host-root", str(root), "--standalone", "--simulate", BOARD])
    runtime = open_runtime(options, Log(io.StringIO()), report)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    runtime.run(stop, SessionSpec.model_validate(spec), Process.of(os.getpid()))


def sending_ns(bursts: int = 300) -> float:
    """Return the CPU time of a call that sends to somebody who keeps up."""
    from powertrain_sdk.sender import INTERVAL_S, Sender

    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(Path(name, "steps.sock")))
        times_s = itertools.count(1.0, 2 * INTERVAL_S)
        step = Sender({"POWERTRAIN_SESSION_DIR": name, "POWERTRAIN_SESSION_UID": UID}, lambda: next(times_s)).step
        found = []
        for _ in range(bursts):
            started_ns = time.thread_time_ns()
            for _ in range(BURST):
                step()
            found.append((time.thread_time_ns() - started_ns) / BURST)
            for _ in range(BURST):
                receiver.recv(4096, socket.MSG_DONTWAIT)
        return statistics.median(found)


def measure_calls() -> dict[str, float]:
    """Return what calls cost, in ns."""
    from powertrain_sdk.steps import hook_step, step
    from powertrain_sdk.torch_hook import StepCounter

    counter, optimizer = StepCounter(hook_step), type("Optimizer", (), {})()

    def hooked() -> None:
        counter.before(optimizer)
        counter.after(optimizer)

    return {
        "empty function": cost_ns(nothing, 200_000),
        # Before step(): the training's own calls end the hook's counting.
        "the hook around an optimizer's step": cost_ns(hooked, 200_000),
        "step()": cost_ns(step, 200_000),
        "a call that sends": sending_ns(),
    }


def python_start_ms(path: str, starts: int = 15) -> float:
    """Return the CPU time of a Python that does nothing, with this PYTHONPATH."""
    environ = {**os.environ, "PYTHONPATH": path}

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", ""], env=environ, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    return min(once() for _ in range(starts))


def training_step() -> Callable[[], None]:
    """Return a step of a small convolutional network on the CPU."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 30 * 30, 10)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def measure_loop(pairs: int, agent: Agent) -> dict[str, float]:
    """Return the time of a training step, and by which share hook and agent lengthen it, with the doubt about it."""
    from torch.optim import optimizer as module

    from powertrain_sdk.torch_hook import attach

    attach(module)
    tables = (module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks)
    hooks = [dict(table) for table in tables]
    step = training_step()
    while not agent.runs:
        step()

    def block_s(steps: int, governed: bool) -> tuple[float, float]:
        agent.let(governed)
        for table, entries in zip(tables, hooks, strict=True):
            table.clear()
            table.update(entries if governed else {})
        started_s, cpu_s = time.perf_counter(), time.thread_time()
        for _ in range(steps):
            step()
        return (time.perf_counter() - started_s) / steps, (time.thread_time() - cpu_s) / steps

    steps = max(1, round(BLOCK_S / block_s(50, True)[0]))
    order, walls, cpus, plain_s = random.Random(0), [], [], []
    for _ in range(pairs):
        first = order.random() < 0.5
        blocks = {governed: block_s(steps, governed) for governed in (first, not first)}
        walls.append(blocks[True][0] / blocks[False][0] - 1)
        cpus.append(blocks[True][1] / blocks[False][1] - 1)
        plain_s.append(blocks[False][0])
    wall, cpu = _middle(walls), _middle(cpus)
    return {
        "step_ms": 1e3 * statistics.median(plain_s),
        "share": wall[0],
        "doubt": wall[1],
        "cpu_share": cpu[0],
        "cpu_doubt": cpu[1],
    }


def _middle(ratios: list[float]) -> tuple[float, float]:
    """Return the median of paired ratios and its doubt, from their quartiles: single blocks may be far off."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, 1.57 * (high - low) / len(ratios) ** 0.5


def report(pairs: int) -> dict[str, dict[str, float]]:
    """Measure everything."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        session = {"POWERTRAIN_SESSION_DIR": str(Path(name, SESSION, UID)), "POWERTRAIN_SESSION_UID": UID}
        os.environ.update(session)
        agent = Agent(Path(name))
        try:
            loop = measure_loop(pairs, agent)
            agent.let(True)
            calls = measure_calls()
        finally:
            agent.end()
    import powertrain_sdk

    auto = str(Path(powertrain_sdk.__file__).parent / "auto")
    start = {"plain": python_start_ms(""), "with the hook": python_start_ms(auto)}
    return {"calls_ns": calls, "python_start_ms": start, "loop": loop}


def print_table(found: dict[str, dict[str, float]]) -> None:
    """Print the results as Markdown."""
    calls, start, loop = found["calls_ns"], found["python_start_ms"], found["loop"]
    print("| what | CPU | against an empty function |\n|---|---|---|")
    for name, nanoseconds in calls.items():
        print(f"| {name} | {nanoseconds:.0f} ns | {nanoseconds / calls['empty function']:.0f} × |")
    plain, hooked = start["plain"], start["with the hook"]
    print(f"| start of a Python that does not train | {plain:.1f} → {hooked:.1f} ms | – |")
    print(f"\nPyTorch loop, {loop['step_ms']:.2f} ms a step, with hook and agent against without:")
    print(f"wall clock {100 * loop['share']:+.2f} ± {100 * loop['doubt']:.2f} %,", end=" ")
    print(f"CPU of its thread {100 * loop['cpu_share']:+.2f} ± {100 * loop['cpu_doubt']:.2f} %")
    # At most one datagram in 20 ms, whatever the step takes.
    direct_ms = (calls["the hook around an optimizer's step"] + calls["a call that sends"]) / 1e6
    print(f"From the table, every step sending: {100 * direct_ms / loop['step_ms']:.2f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--agent", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.agent:
        be_agent(options.agent)
        sys.exit(0)
    results = report(options.pairs)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print_table(results)
    slow_loop = results["loop"]["share"] - results["loop"]["doubt"] > LOOP_LIMIT
    sys.exit(int(results["calls_ns"]["step()"] >= CALL_LIMIT_NS or slow_loop))
