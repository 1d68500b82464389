"""The planner's side that waits: sends a session to a low-priority process and hands on its answer when it comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from powertrain_agent.governor.events import Planned

COMMAND = (sys.executable, "-m", "powertrain_agent.governor.fit_process")
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
        self._asked: tuple[int, dict[str, Any]] | None = None
        self._working = self._resting = self._stopped = False
        self._unwanted = False  # what is worked on was given up, perhaps before its process was there to be killed
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Say whether a fit runs or is about to."""
        return self._working or self._asked is not None

    def submit(self, number: int, request: dict[str, Any]) -> None:
        """Begin to work on a request, after the one that is worked on."""
        with self._changed:
            self._asked, self._resting = (number, request), False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="planner", daemon=True)
                self._thread.start()
            self._changed.notify()

    def rest(self) -> None:
        """Let the process end, and with it what nobody waits for any more; returns at once."""
        with self._changed:
            self._asked, self._resting = None, True
            if self._working:
                self._unwanted = True
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
                self._changed.wait_for(lambda: self._asked or self._resting or self._stopped)
                asked, self._asked = self._asked, None
                self._working, self._resting = asked is not None and not self._stopped, False
                self._unwanted = False
            if self._stopped:
                break
            if asked is None:
                self._end()
                continue
            reply = self._reply(asked[1])
            with self._changed:
                self._working = False
            self._deliver(Planned(asked[0], reply["answer"], reply["error"]))
        self._end()

    def _reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the process's answer; one that is late or can't be read costs the process."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(self._deadline_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            line = self._exchange(json.dumps(request))
            reply: dict[str, Any] = json.loads(line) if line else _failed("the planner's process ended")
        except (OSError, ValueError) as error:
            reply = _failed(f"the planner's process failed: {error}")
        finally:
            timer.cancel()
        if late.is_set():
            reply = {"answer": {"unavailable": True}, "error": f"no plan within {self._deadline_s:g} s"}
        if reply["error"] is not None:
            self._end()
        return reply

    def _exchange(self, line: str) -> str:
        with self._changed:
            if self._stopped or self._unwanted:
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


def _failed(error: str) -> dict[str, Any]:
    return {"answer": {}, "error": error}
