"""What the SDK costs a training: one call, one Python start, and a PyTorch loop with a real agent's receiver listening.

    python benchmarks/sdk.py [--pairs 1200] [--json]

CPU time of the calling thread, the smallest of several repeats (a busy machine adds, it never takes away). The loop is
measured in short blocks with and without the hook, in turn, so that what else the machine does meets both alike. Ends
with 1 when a call costs 5 µs or the hook slows the loop by 1 % beyond doubt. Needs the nn extra for the loop.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

UID = "benchmark"
CALL_LIMIT_NS = 5000.0
LOOP_LIMIT = 0.01
STEPS_A_BLOCK = 8  # some 30 ms, so that each block with the hook holds at least one datagram
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


@contextmanager
def listening_agent(directory: Path) -> Iterator[None]:
    """Run the agent's receiver in a process of its own, as on a node."""
    command = [sys.executable, __file__, "--receive", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate()


def receive(directory: Path) -> None:
    """Be that process: until its input ends."""
    from powertrain_agent.steps import SessionDir, StepReceiver

    receiver = StepReceiver(SessionDir(directory, UID), lambda _: None)
    receiver.start()
    print("ready", flush=True)
    sys.stdin.read()
    receiver.stop()


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


def measure_loop(pairs: int) -> dict[str, float]:
    """Return the CPU time of a training step, and by which share the hook lengthens it (quartiles of paired blocks)."""
    from torch.optim import optimizer as module

    from powertrain_sdk.torch_hook import attach

    attach(module)
    tables = (module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks)
    hooks = [dict(table) for table in tables]
    step = training_step()

    def block_s(hooked: bool) -> float:
        for table, entries in zip(tables, hooks, strict=True):
            table.clear()
            table.update(entries if hooked else {})
        started_s = time.thread_time()
        for _ in range(STEPS_A_BLOCK):
            step()
        return (time.thread_time() - started_s) / STEPS_A_BLOCK

    block_s(True)
    order, ratios, plain_s = random.Random(0), [], []
    for _ in range(pairs):
        hooked_first = order.random() < 0.5
        first_s, second_s = block_s(hooked_first), block_s(not hooked_first)
        with_s, without_s = (first_s, second_s) if hooked_first else (second_s, first_s)
        ratios.append(with_s / without_s - 1)
        plain_s.append(without_s)
    low, middle, high = statistics.quantiles(ratios, n=4)
    doubt = 1.57 * (high - low) / pairs**0.5
    return {"step_ms": 1e3 * statistics.median(plain_s), "share": middle, "doubt": doubt}


def report(pairs: int) -> dict[str, dict[str, float]]:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        session = {"POWERTRAIN_SESSION_DIR": str(Path(name, UID)), "POWERTRAIN_SESSION_UID": UID}
        os.environ.update(session)
        with listening_agent(Path(name)):
            calls = measure_calls()
            loop = measure_loop(pairs)
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
    print(f"\nPyTorch loop, {loop['step_ms']:.2f} ms a step: {100 * loop['share']:+.2f} ± {100 * loop['doubt']:.2f} %")
    # At most one datagram in 20 ms, whatever the step takes.
    direct_ms = (calls["the hook around an optimizer's step"] + calls["a call that sends"]) / 1e6
    print(f"From the table, every step sending: {100 * direct_ms / loop['step_ms']:.2f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--receive", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        receive(options.receive)
        sys.exit(0)
    results = report(options.pairs)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print_table(results)
    slow_loop = results["loop"]["share"] - results["loop"]["doubt"] > LOOP_LIMIT
    sys.exit(int(results["calls_ns"]["step()"] >= CALL_LIMIT_NS or slow_loop))
