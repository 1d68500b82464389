"""What SDK and agent cost a training: one call, one Python start, and two trainings beside a whole agent in a session.

    python benchmarks/sdk.py [--pairs 200] [--script-pairs 240] [--json]

Calls: CPU time of the calling thread, the smallest of several repeats (a busy machine adds, it never takes away).
The trainings: blocks with the hook on and the agent running, and with the hook off and the agent stopped (SIGSTOP), in
pairs of random order, so that what else the machine does meets both alike; the wall clock counts. One is a bare loop of
steps that are shorter than any real one's; the other is plain_training.py, as it is, with the environment that a pod
gives it. Both use one CPU thread, as a training does whose work is the GPU's. The agent reads a board's files as it
would a Jetson's and simulates nothing (session_agent.py). Ends with 1 when a call costs 5 µs, the loop is slowed by 1 %
beyond doubt, or the script is not shown to be slowed by less. Needs the nn extra for the trainings.
"""

from __future__ import annotations

import argparse
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
import time
from collections.abc import Callable
from pathlib import Path

from sampling import cpu_s
from session_agent import UID, Agent

import powertrain_sdk

HERE = Path(__file__).resolve().parent
AUTO = Path(powertrain_sdk.__file__).parent / "auto"
CALL_LIMIT_NS = 5000.0
SLOWER_LIMIT = 0.01
BLOCK_S = 0.33  # holds three readings of the agent and more than ten datagrams
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


def sending_ns(bursts: int = 300) -> float:
    """Return the CPU time of a call that sends to somebody who keeps up."""
    from powertrain_sdk.sender import INTERVAL_S, Sender

    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(Path(name, "steps.sock")))
        times_s = itertools.count(1.0, 2 * INTERVAL_S)
        step = Sender({"POWERTRAIN_SESSION_DIR": name, "POWERTRAIN_SESSION_UID": UID}, lambda: next(times_s)).step
        times_ns = []
        for _ in range(bursts):
            started_ns = time.thread_time_ns()
            for _ in range(BURST):
                step()
            times_ns.append((time.thread_time_ns() - started_ns) / BURST)
            for _ in range(BURST):
                receiver.recv(4096, socket.MSG_DONTWAIT)
        return statistics.median(times_ns)


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


def paired(block_s: Callable[[bool], float], pairs: int, agent: Agent) -> dict[str, float]:
    """Return the time of a step without hook and agent, by which share they lengthen it, and the doubt about that.

    `block_s` trains for a while, with them or without, and returns the time of a step.
    """
    order, ratios, plain_s, ran_s, used_s = random.Random(0), [], [], 0.0, cpu_s(agent.pid)
    for _ in range(pairs):
        step_s_of: dict[bool, float] = {}
        first = order.random() < 0.5
        for governed in (first, not first):
            agent.let(governed)
            began_s = time.perf_counter()
            step_s_of[governed] = block_s(governed)
            ran_s += (time.perf_counter() - began_s) * governed
        ratios.append(step_s_of[True] / step_s_of[False] - 1)
        plain_s.append(step_s_of[False])
    agent.let(True)
    share, doubt = _middle(ratios)
    return {
        "step_ms": 1e3 * statistics.median(plain_s),
        "share": share,
        "doubt": doubt,
        "agent_core_share": (cpu_s(agent.pid) - used_s) / ran_s,
    }


def _middle(ratios: list[float]) -> tuple[float, float]:
    """Return the median of paired ratios and its doubt, from their quartiles: single blocks may be far off."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, 1.57 * (high - low) / len(ratios) ** 0.5


def measure_loop(pairs: int, agent: Agent) -> dict[str, float]:
    """Measure a bare loop of short steps in this process."""
    from torch.optim import optimizer as module

    from powertrain_sdk.torch_hook import attach

    attach(module)
    tables = (module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks)
    hooks = [dict(table) for table in tables]
    step = training_step()
    while not agent.runs:
        step()

    def block_s(steps: int, governed: bool) -> float:
        for table, entries in zip(tables, hooks, strict=True):
            table.clear()
            table.update(entries if governed else {})
        for _ in range(steps // 10):
            step()  # stopping a process and letting it go on is no part of what it costs
        started_s = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - started_s) / steps

    steps = max(1, round(BLOCK_S / block_s(50, True)))
    return paired(lambda governed: block_s(steps, governed), pairs, agent)


def measure_script(pairs: int, agent: Agent) -> dict[str, float]:
    """Measure an unmodified script in a process of its own, started as in a pod."""
    path = os.pathsep.join([str(AUTO), str(HERE / "switch")])
    environ = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **agent.environ}
    command = [sys.executable, str(HERE / "plain_training.py"), "1000000"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        lines = iter(script.stdout.readline, "")

        def block_s(governed: bool) -> float:
            script.send_signal(signal.SIGUSR1 if governed else signal.SIGUSR2)
            next(lines)  # began before the change
            return float(next(lines).split()[2])

        try:
            while not agent.runs:
                next(lines)
            return paired(block_s, pairs, agent)
        finally:
            script.kill()


def report(pairs: int, script_pairs: int) -> dict[str, dict[str, float]]:
    """Measure everything."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        agent = Agent(Path(name))
        os.environ.update(agent.environ)
        try:
            script = measure_script(script_pairs, agent)
            loop = measure_loop(pairs, agent)
            calls = measure_calls()
        finally:
            agent.end()
    start = {"plain": python_start_ms(""), "with the hook": python_start_ms(str(AUTO))}
    return {"calls_ns": calls, "python_start_ms": start, "script": script, "loop": loop}


def print_table(figures: dict[str, dict[str, float]]) -> None:
    """Print the results as Markdown."""
    calls, start, loop = figures["calls_ns"], figures["python_start_ms"], figures["loop"]
    print("| what | CPU | against an empty function |\n|---|---|---|")
    for name, nanoseconds in calls.items():
        print(f"| {name} | {nanoseconds:.0f} ns | {nanoseconds / calls['empty function']:.0f} × |")
    plain, hooked = start["plain"], start["with the hook"]
    print(f"| start of a Python that does not train | {plain:.1f} → {hooked:.1f} ms | – |")
    print("\n| training | a step | with hook and agent | the agent meanwhile |\n|---|---|---|---|")
    for name, of in (("unmodified script", figures["script"]), ("bare loop", loop)):
        slower = f"{100 * of['share']:+.2f} ± {100 * of['doubt']:.2f} %"
        print(f"| {name} | {of['step_ms']:.2f} ms | {slower} | {of['agent_core_share']:.2%} of a core |")
    # At most one datagram in 20 ms, whatever the step takes.
    direct_ms = (calls["the hook around an optimizer's step"] + calls["a call that sends"]) / 1e6
    print(f"\nFrom the table, every step of the loop sending: {100 * direct_ms / loop['step_ms']:.2f} %")


def broken(figures: dict[str, dict[str, float]]) -> bool:
    """Say whether a promise is not kept."""
    loop, script = figures["loop"], figures["script"]
    slow_loop = loop["share"] - loop["doubt"] > SLOWER_LIMIT
    slow_script = script["share"] + script["doubt"] >= SLOWER_LIMIT
    return figures["calls_ns"]["step()"] >= CALL_LIMIT_NS or slow_loop or slow_script


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200, help="of blocks of the bare loop, 0.7 s each")
    parser.add_argument("--script-pairs", type=int, default=240, help="of blocks of the script, about 1 s each")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = report(options.pairs, options.script_pairs)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print_table(results)
    sys.exit(int(broken(results)))
