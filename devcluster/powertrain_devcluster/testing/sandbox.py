"""Runs `powertrain cluster` for tests as a person would, and finds whatever it left on the machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from powertrain_devcluster.node.programs import SystemPrograms
from powertrain_devcluster.testing.waits import Machine, SessionLogs, machine, traces_of_node, wait_for

_TIMEOUT_S = 120


class Sandbox:
    """A home of its own for the clusters of one test; the token finds their processes among all others."""

    def __init__(self, root: Path, programs: SystemPrograms | None = None) -> None:
        self.token = root.name
        self._programs = programs
        self._processes: list[subprocess.Popen[str]] = []
        self.state, self.scratch = root / "state", root / "tmp"
        self.scratch.mkdir(parents=True)
        self.env = {**os.environ, "XDG_STATE_HOME": str(self.state), "POWERTRAIN_TEST": self.token}
        if programs is None:  # a node has sockets in the temporary folder, whose paths must be short
            self.env["TMPDIR"] = str(self.scratch)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "powertrain_devcluster", *arguments]

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        # A background job's children ignore interrupts; these are to be interrupted wherever the tests run.
        command = ["env", "--default-signal=INT", *self.command(*arguments)]
        process = subprocess.Popen(command, env={**self.env, **(env or {})}, stderr=subprocess.PIPE, text=True)
        self._processes.append(process)
        return process

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def machine_state(self) -> Machine:
        return machine(self.token, self._programs)

    def files(self) -> list[Path]:
        return sorted(path for root in (self.state, self.scratch) for path in root.rglob("*") if not path.is_dir())

    def folder(self, name: str = "powertrain") -> Path:
        return self.state / "powertrain" / "clusters" / name

    def expect_nothing_left(self, before: Machine, name: str = "powertrain") -> None:
        """Fails unless processes, mounts, interfaces, packet rules, sysctls, control groups and files are as before."""
        after = wait_for("the machine to be as before", self.machine_state, lambda now: now == before)
        assert not after.processes, after.processes
        wait_for("no file to be left", self.files, lambda files: not files)
        wait_for("no trace of a node", lambda: traces_of_node(self.folder(name)), lambda traces: not traces)

    def close(self, logs: SessionLogs) -> None:
        """End what a failed test left running; the logs of its clusters are copied to where the others are."""
        for process in self._processes:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()
        for folder in self.state.glob("powertrain/clusters/*"):
            if logs.failed and (folder / "logs").is_dir():
                shutil.copytree(folder / "logs", logs.folder / self.token / folder.name, dirs_exist_ok=True)
            self.run("down", "--name", folder.name)


def wait_line(process: subprocess.Popen[str], text: str) -> None:
    """Read what the process says until it says `text`."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return
    raise AssertionError(f"{text!r} was never said: {lines}")


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and what was said since."""
    assert process.stderr is not None
    with process.stderr as stream:
        rest = stream.read()
    return process.wait(timeout=_TIMEOUT_S), rest
