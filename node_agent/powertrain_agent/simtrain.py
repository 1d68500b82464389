"""The command `powertrain-simtrain WORKLOAD`: a training without a GPU, whose steps sleep as the mode asks."""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import powertrain_sdk
from powertrain_agent.simulate import SimulatedBoard, workloads

ENV_ROOT, ENV_SCALE = "POWERTRAIN_SIM_ROOT", "POWERTRAIN_TIME_SCALE"
# The announcement outlives its process by so long: a process id means nothing in the agent's container.
ALIVE_S, RENEW_S = 3.0, 1.0
# Looking at the board's files takes a fifth of a millisecond; a mode lasts for seconds.
LOOK_S = 0.005
# A training that pauses looks so often whether it goes on.
WAIT_S = 0.02
JITTER = 0.01


@dataclass(frozen=True)
class Plan:
    """What to train, and for how long (None: until stopped)."""

    workload: str
    batch_size: int
    steps: int | None
    steps_per_epoch: int
    # As many trainings have it: they end when somebody makes this file.
    stop_file: Path | None = None


class SimulatedTraining:
    """Announces itself to the board and makes steps; `clock` and `sleep` are parameters for tests."""

    def __init__(
        self,
        board: SimulatedBoard,
        plan: Plan,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        seed: int = 0,
    ) -> None:
        self._board = board
        self._plan = plan
        self._clock = clock
        self._sleep = sleep
        self._scale = board.sysfs.time_scale
        self._random = random.Random(seed)
        self._announced_s = self._looked_s = float("-inf")
        self._step_s = 0.0
        self._stopped = False

    def run(self) -> int:
        """Train to the end and return the number of steps."""
        steps_done, due_s = 0, self._clock()
        try:
            while (self._plan.steps is None or steps_done < self._plan.steps) and not self._stopped:
                due_s = self._one_step(steps_done, due_s)
                steps_done += 1
                powertrain_sdk.step()
                if steps_done % self._plan.steps_per_epoch == 0:
                    powertrain_sdk.epoch()
        finally:
            self._board.unload()
        return steps_done

    def _one_step(self, index: int, due_s: float) -> float:
        now_s = self._clock()
        self._announce(now_s)
        if now_s - self._looked_s >= LOOK_S:
            self._step_s, self._looked_s = self._next_step_s(), self._clock()
            now_s = self._looked_s
        step_s = self._step_s * workloads.first_step_factor(index) * self._random.gauss(1.0, JITTER)
        # Deadlines follow each other, so what a step's own work costs does not add up; a late one starts anew.
        due_s = max(due_s, now_s - step_s) + step_s
        while (left_s := due_s - self._clock()) > 0:
            self._announce(self._clock())
            self._sleep(min(left_s, RENEW_S))
        return due_s

    def _next_step_s(self) -> float:
        """Return the time of a step; while the training pauses or evaluates, wait: no step ends then."""
        while math.isinf(step_s := self._board.step_s() / self._scale):
            self._announce(self._clock())
            self._sleep(WAIT_S)
        return step_s

    def _announce(self, now_s: float) -> None:
        if now_s - self._announced_s >= RENEW_S:
            self._board.load(self._plan.workload, self._plan.batch_size, lasts_s=ALIVE_S * self._scale)
            self._announced_s = now_s
            self._stopped = self._plan.stop_file is not None and self._plan.stop_file.exists()


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    options = argparse.ArgumentParser(
        prog="powertrain-simtrain", description="A simulated training on a simulated board."
    )
    options.add_argument("workload", help=f"one of {', '.join(workloads.names())}")
    options.add_argument("--host-root", type=Path, default=os.environ.get(ENV_ROOT), help=f"the board (${ENV_ROOT})")
    scale = float(os.environ.get(ENV_SCALE) or 1.0)
    options.add_argument("--time-scale", type=float, default=scale, help=f"as the agent's (${ENV_SCALE}, 1)")
    options.add_argument("--batch-size", type=int, help="samples a step ($POWERTRAIN_BATCH_SIZE, the workload's usual)")
    options.add_argument("--steps", type=int, help="end after this many steps (default: after --epochs)")
    options.add_argument("--epochs", type=int, help="end after this many epochs (default: never)")
    options.add_argument("--stop-file", type=Path, help="end once this file exists (looked for every second)")
    options.add_argument("--seed", type=int, default=0, help="seed of the steps' jitter (0)")
    options.add_argument("--no-gate", action="store_true", help="do not wait until the agent has verified a safe mode")
    return options


def plan(options: argparse.Namespace) -> Plan:
    """Return what the options ask for."""
    workload = workloads.get(options.workload)
    batch_size = options.batch_size or powertrain_sdk.batch_size(workload.batch_size)
    per_epoch = max(1, -(-workload.samples_per_epoch // batch_size))
    steps = options.steps or (options.epochs * per_epoch if options.epochs else None)
    return Plan(options.workload, batch_size, steps, per_epoch, options.stop_file)


def run(arguments: list[str] | None = None) -> None:
    """Train, the entry point of `powertrain-simtrain`."""
    options = parser().parse_args(arguments)
    try:
        training_plan = plan(options)
        if options.host_root is None or not SimulatedBoard.exists(Path(options.host_root)):
            raise ValueError(f"no simulated board in {options.host_root}; name one with --host-root or ${ENV_ROOT}")
    except (workloads.UnknownWorkloadError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    if not options.no_gate and os.environ.get("POWERTRAIN_SESSION_UID"):
        from powertrain_sdk import gate

        closed = gate.main([])
        if closed:
            sys.exit(closed)
    board = SimulatedBoard.open(Path(options.host_root), time_scale=options.time_scale)
    try:
        steps_done = SimulatedTraining(board, training_plan, seed=options.seed).run()
    except KeyboardInterrupt:
        sys.exit(130)
    sys.stdout.write(f"{options.workload}: {steps_done} steps\n")


if __name__ == "__main__":
    run()
