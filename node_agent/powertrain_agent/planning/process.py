"""The planner's side that waits: sends requests to a low-priority child process and hands on each answer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from powertrain_agent.planning.codec import answer_from_line, request_to_line
from powertrain_agent.planning.messages import PlanAnswer, PlanFailure, Planned, PlanRequest

COMMAND = (sys.executable, "-m", "powertrain_agent.planning.child")
DEADLINE_S = 600.0  # networks on the slowest board need some minutes; what takes longer hangs


class PlannerProcess:
    """A child process that lives from a request until nothing is asked for; one thread speaks with it.

    Only the latest request counts: one that was not begun when the next came is dropped.
    """

    def __init__(
        self, deliver: Callable[[Planned], None], command: Sequence[str] = COMMAND, deadline_s: float = DEADLINE_S
    ) -> None:
        self._deliver, self._command, self._deadline_s = deliver, tuple(command), deadline_s
        self._changed = threading.Condition()
        self._next: tuple[int, PlanRequest] | None = None
        self._working = self._resting = self._stopped = False
        self._was_given_up = False  # what is worked on was given up, perhaps before its process was there to be killed
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Say whether a fit runs or is about to."""
        return self._working or self._next is not None

    def submit(self, number: int, request: PlanRequest) -> None:
        """Begin to work on a request, after the one that is worked on."""
        with self._changed:
            self._next, self._resting = (number, request), False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="planner", daemon=True)
                self._thread.start()
            self._changed.notify()

    def rest(self) -> None:
        """Let the process end, and with it what nobody waits for any more; returns at once."""
        with self._changed:
            self._next, self._resting = None, True
            if self._working:
                self._was_given_up = True
                self._kill()
            self._changed.notify()

    def stop(self) -> None:
        """End the process and the thread."""
        with self._changed:
            self._stopped = True
            self._kill()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next or self._resting or self._stopped)
                job, self._next = self._next, None
                self._working, self._resting = job is not None and not self._stopped, False
                self._was_given_up = False
            if self._stopped:
                break
            if job is None:
                self._end()
                continue
            answer = self._answer(job[1])
            with self._changed:
                self._working = False
            self._deliver(Planned(job[0], answer))
        self._end()

    def _answer(self, request: PlanRequest) -> PlanAnswer | PlanFailure:
        """Return the process's answer; one that is late or can't be read costs the process."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(self._deadline_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            line = self._exchange(request_to_line(request))
            answer = answer_from_line(line) if line else PlanFailure("the planner's process ended")
        except (OSError, ValueError) as error:
            answer = PlanFailure(f"the planner's process failed: {error}")
        finally:
            timer.cancel()
        if late.is_set():
            answer = PlanFailure(f"no plan within {self._deadline_s:g} s", unavailable=True)
        if isinstance(answer, PlanFailure):
            self._end()
        return answer

    def _exchange(self, line: str) -> str:
        with self._changed:
            if self._stopped or self._was_given_up:
                return ""
            if self._process is None:
                # numpy's thread pools would take the cores that the training needs.
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    process_group=0,  # a Ctrl-C is for the command, which ends this process by itself
                    env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                )
            process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return process.stdout.readline()

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()

    def _end(self) -> None:
        """Collect the process; nothing of it is worth waiting for."""
        with self._changed:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was never read can't be flushed any more
                    pipe.close()
