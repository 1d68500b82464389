"""Tuning a training that runs: the agent's loop around a board and a command, shown live, restored in the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from powertrain.api.v1alpha1 import PROTOCOL, SessionSpec, SessionStatus
from powertrain.profiling import Caution
from powertrain.strategies import names
from powertrain_agent.governing.events import HeldBy
from powertrain_agent.governing.states import Running
from powertrain_agent.main import STATE_DIR, SetupError, open_runtime, parser
from powertrain_agent.planning.asking import AUTO
from powertrain_agent.process import Process
from powertrain_agent.runtime import SESSIONS
from powertrain_cli import live_report
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.live_choice import Choice
from powertrain_cli.live_reference import reference_folder
from powertrain_cli.live_view import LiveView
from powertrain_cli.output import emit_json, stdout
from powertrain_cli.report import output
from powertrain_cli.report.document import Report
from powertrain_cli.tables import SHIPPED
from powertrain_kube.log import Log

SIMULATED, LOCAL = "sim:", "local"
GATE_TIMEOUT_S = 120.0
POLL_S = 0.2
BOARD = "board"
AGENT_LOG, TRAINING_LOG = "agent.log", "training.log"
ENDINGS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
)  # a closed terminal or a stopped service ends it as Ctrl-C does


@dataclass(frozen=True)
class LiveRequest:
    """What to tune, and how."""

    device: str
    power_w: float
    command: tuple[str, ...]
    strategy: str
    max_modes: int | None
    batch_size: int | None
    time_scale: float
    state_dir: Path | None
    until_chosen: bool
    as_json: bool
    report: Path | None = None
    reference: str = SHIPPED
    caution: Caution = Caution.NORMAL


def tune_live(request: LiveRequest) -> None:
    """Run the command under the loop until it ends, or until a mode is chosen where that was asked for."""
    _refuse_missing_commands(request.command)
    _refuse_unknown_strategies(request.strategy)
    logs = request.state_dir or Path(tempfile.mkdtemp(prefix="powertrain-tune-"))
    logs.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="powertrain-", ignore_cleanup_errors=True) as scratch,
        (logs / AGENT_LOG).open("a", encoding="utf-8") as lines,
    ):
        try:
            session = _Session(request, Path(scratch), logs, Log(lines))
        except Exception:
            if request.state_dir is None:
                shutil.rmtree(logs)  # nothing ran that a log could tell of
            raise
        code = session.run()
    if request.report is not None:
        output.write(session.report(), request.report)
        session.view.conclude([f"report     {request.report}"])
    if request.as_json:
        emit_json(session.record())
    if code:
        raise CliError(f"the training ended with code {code}", Exit.ENVIRONMENT)


class _Session:
    def __init__(self, request: LiveRequest, scratch: Path, logs: Path, log: Log) -> None:
        self._request, self._scratch, self._logs = request, scratch, logs
        self.view = LiveView(request.power_w, request.time_scale, quiet=request.as_json, console=stdout())
        self._status: SessionStatus | None = None
        self._choice = Choice(request.time_scale)
        self._ending = False
        self._changed = threading.Event()
        self._training: subprocess.Popen[bytes] | None = None
        self._root = self._host_root()
        self._reference = reference_folder(request.reference, scratch)
        try:
            self._runtime = open_runtime(self._options(), log, self._report)
        except SetupError as error:
            raise CliError(str(error)) from None
        self._refuse_plain_machines()
        self._refuse_held_boards()
        self._spec = self._envelope()

    def run(self) -> int:
        """Return the training's exit code, 0 where it was ended because a mode is chosen."""
        stop = threading.Event()
        arguments = (stop, self._spec, Process.of(os.getpid()))
        loop = threading.Thread(target=self._runtime.run, args=arguments, name="loop")
        with self.view, _ended_by(signal.default_int_handler):
            loop.start()
            try:
                self._wait_for_gate(loop)
                self._start_training()
                return self._follow(loop)
            except OSError as error:
                raise CliError(f"{self._request.command[0]!r} does not start: {error.strerror}") from None
            except KeyboardInterrupt:
                return 0
            finally:
                with _ended_by(signal.SIG_IGN):  # nothing may stop what brings the board back
                    self._ending = True
                    _end(self._training)
                    stop.set()
                    loop.join()
                    problems = self._runtime.restore("the training has ended")
                    self.view.conclude(self._conclusion(problems))

    def record(self) -> dict[str, Any]:
        """Return what was tried and chosen, JSON-ready."""
        status = self._choice.status or self._status
        if status is None:
            return {"choice": None, "tried": []}
        return {
            "choice": status.mode if self._choice.status else None,
            "reason": status.message,
            "reference": status.result.reference if status.result else None,
            "predicted": status.predicted.model_dump(mode="json", by_alias=True) if status.predicted else None,
            "profilingSeconds": status.profiling.seconds,
            "violations": status.violations,
            "tried": self.view.trials(status),
        }

    def _start_training(self) -> None:
        """From here on the board is held for the training: it may outlive a command that is killed."""
        command = self._request.command
        with (self._logs / TRAINING_LOG).open("ab") as lines:  # it would tear the live view apart
            self._training = subprocess.Popen(command, env=self._environment(), stdout=lines, stderr=subprocess.STDOUT)
        process = Process.of(self._training.pid)
        if process is not None:
            self._runtime.put(HeldBy(self._spec.uid, process))

    def _follow(self, loop: threading.Thread) -> int:
        assert self._training is not None
        while loop.is_alive():
            code = self._training.poll()
            if code is not None:
                return code
            if self.view.reader_gone:
                return 0  # as `| head` ends other commands
            if self._request.until_chosen and self._choice.is_observed and self._is_settled():
                return 0
            time.sleep(POLL_S)
        raise CliError("the agent's loop ended early", Exit.ENVIRONMENT)

    def _is_settled(self) -> bool:
        """Say whether the in-flight checks are through as well."""
        executor = self._runtime.sessions.executor
        record, running = executor.record, isinstance(executor.state, Running)
        return running and record is not None and record.checks >= executor.settings.checks

    def _report(self, status: SessionStatus, urgent: bool) -> None:
        if status.uid != self._spec.uid:
            return  # the end of a session that a killed run left
        self._status = status
        # A training that ends takes the power down with it: that is nothing that the mode does.
        if not self._ending:
            self._choice.take(status, time.monotonic())
        self.view.show(status)
        self._changed.set()

    def _wait_for_gate(self, loop: threading.Thread) -> None:
        deadline_s = time.monotonic() + GATE_TIMEOUT_S
        while self._status is None or not self._status.gate_open:
            if not loop.is_alive() or time.monotonic() > deadline_s:
                message = self._status.message if self._status else "nothing was reported"
                raise CliError(f"no safe mode could be verified: {message}", Exit.ENVIRONMENT)
            self._changed.wait(POLL_S)
            self._changed.clear()

    def report(self) -> Report:
        """Return the report of the run."""
        board = self._runtime.board_restorer.controller.board
        return live_report.report(
            self._choice.status or self._status, self._spec, board, self._runtime.recorder.history
        )

    def _conclusion(self, problems: Sequence[str]) -> Iterator[str]:
        """Return the last lines: the choice and what it gains, what was restored, where the logs are."""
        if self._choice.status is None:
            yield "chosen     nothing: the training ended before a mode was chosen"
        else:
            yield from live_report.conclusion(self.report())
        yield f"board      {'; '.join(problems) if problems else 'original settings restored'}"
        yield f"training   {self._logs / TRAINING_LOG}"
        yield f"agent      {self._logs / AGENT_LOG}"

    def _host_root(self) -> Path:
        device = self._request.device
        if device.startswith(SIMULATED):
            return (self._request.state_dir or self._scratch) / BOARD
        if device == LOCAL:
            return Path("/")
        raise CliError(f"--device {device}: use '{LOCAL}' (this board) and '{SIMULATED}NAME', such as sim:orin-agx")

    def _options(self) -> Any:
        request = self._request
        arguments = ["--host-root", str(self._root), "--standalone"]
        if request.state_dir is not None:
            arguments += ["--state-dir", str(request.state_dir)]
        if request.device.startswith(SIMULATED):
            arguments += ["--simulate", request.device.removeprefix(SIMULATED)]
            arguments += ["--time-scale", str(request.time_scale)]
        elif request.time_scale != 1.0:
            raise CliError("--time-scale is for simulated boards: real time can't be scaled")
        if self._reference is not None:
            arguments += ["--references", str(self._reference), "--own-references-only"]
        return parser().parse_args(arguments)

    def _refuse_plain_machines(self) -> None:
        board = self._runtime.board_restorer.controller.board
        if not board.identity.is_jetson:
            raise CliError(
                f"{board.identity.doubt}; run it on the board, or try --device sim:orin-agx", Exit.ENVIRONMENT
            )

    def _refuse_held_boards(self) -> None:
        reason = self._runtime.board_restorer.reason_held()
        if reason:
            raise CliError(f"the board is held for an earlier training: {reason}; end it first", Exit.ENVIRONMENT)

    def _envelope(self) -> SessionSpec:
        request = self._request
        return SessionSpec.model_validate(
            {
                "protocol": PROTOCOL,
                "uid": str(uuid.uuid4()),
                "job": {"namespace": "local", "name": "tune"},
                "limits": {"powerWatts": request.power_w},
                "workload": {"name": _name(request.command), "batchSize": request.batch_size or 1},
                "plan": {
                    "strategy": request.strategy,
                    "maxModes": request.max_modes,
                    "caution": request.caution.value.capitalize(),
                },
            }
        )

    def _sessions(self) -> Path:
        return (self._request.state_dir or self._root / STATE_DIR) / SESSIONS

    def _environment(self) -> dict[str, str]:
        request = self._request
        import powertrain_sdk

        hook = Path(powertrain_sdk.__file__).parent / "auto"
        paths = [str(hook), str(hook.parent.parent), os.environ.get("PYTHONPATH", "")]
        variables = {
            "POWERTRAIN_SESSION_DIR": str(self._sessions() / self._spec.uid),
            "POWERTRAIN_SESSION_UID": self._spec.uid,
            "POWERTRAIN_BOOT_ID": self._status.boot_id if self._status else "",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        if request.batch_size:
            variables["POWERTRAIN_BATCH_SIZE"] = str(request.batch_size)
        if request.device.startswith(SIMULATED):
            variables |= {"POWERTRAIN_SIM_ROOT": str(self._root), "POWERTRAIN_TIME_SCALE": str(request.time_scale)}
        return {**os.environ, "PATH": _path(), **variables}


def _path() -> str:
    """The commands installed beside this one are found even when its environment is not active."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def _refuse_missing_commands(command: Sequence[str]) -> None:
    """Notice a mistyped command or script before the board is touched."""
    if shutil.which(command[0], path=_path()) is None:
        raise CliError(f"there is no command {command[0]!r}: check its name, or give its path")
    script = next((part for part in command[1:2] if part.endswith(".py")), None)
    if script is not None and Path(command[0]).name.startswith("python") and not Path(script).is_file():
        raise CliError(f"there is no script {script!r} in {Path.cwd()}")


def _refuse_unknown_strategies(strategy: str) -> None:
    """An agent would take another one instead, which is right for a job and wrong for who has just mistyped it."""
    if strategy not in (AUTO, *names()):
        raise CliError(f"--strategy {strategy}: one of {', '.join(names())}")


def _name(command: Sequence[str]) -> str:
    return Path(command[0]).name if len(command) == 1 else " ".join(Path(part).name for part in command[:2])


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _ended_by(handler: Any) -> Iterator[None]:
    """Handle every signal that ends the command in one way; Python's own raises KeyboardInterrupt for any of them."""
    before = [(number, signal.signal(number, handler)) for number in ENDINGS]
    try:
        yield
    finally:
        for number, usual in before:
            signal.signal(number, usual)
