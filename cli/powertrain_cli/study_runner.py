"""Runs the trainings of a batch study on this machine, several at a time, and keeps the study file up to date."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory

import powertrain_sdk
from powertrain.batching.study import Outcome, Study, StudyError, StudyRun, StudySpec, run_from_message
from powertrain_cli.errors import CliError

TAIL = 400  # characters of stderr that a failed run keeps
OnRun = Callable[[StudyRun], None]


def read_study(path: Path) -> Study:
    """Read a study file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise CliError(
                f"{path} is not a study: it holds no JSON object; make one with `powertrain batch-study run`"
            )
        return Study.from_dict(document)
    except FileNotFoundError:
        raise CliError(f"there is no study {path}; make one with `powertrain batch-study run`") from None
    except IsADirectoryError:
        raise CliError(f"{path} is a folder, not a study file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CliError(f"{path} is not a study: {error}; make one with `powertrain batch-study run`") from None
    except StudyError as error:
        raise CliError(f"{path}: {error}") from None


def write_study(study: Study, path: Path) -> None:
    """Write a study so that a reader never sees half of it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(study.to_dict(), indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


def resumed(spec: StudySpec, path: Path) -> Study:
    """Return the study to go on with: the file's if it is of the same spec, a new one if there is none."""
    if not path.exists():
        return Study(spec)
    study = read_study(path)
    if study.spec != spec:
        raise CliError(f"{path} holds another study (other sizes, seeds, target or command); name another file")
    return study


def run_study(study: Study, path: Path, jobs: int, timeout_s: float | None, on_run: OnRun) -> Study:
    """Run what is pending; the file is written after every run."""
    write_study(study, path)
    with ThreadPoolExecutor(jobs) as pool:
        runs = [pool.submit(_run, study.spec, size, seed, timeout_s) for size, seed in study.pending()]
        try:
            for ended in as_completed(runs):
                study = study.add(ended.result())
                write_study(study, path)
                on_run(ended.result())
        except KeyboardInterrupt:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return study


def _run(spec: StudySpec, batch_size: int, seed: int, timeout_s: float | None) -> StudyRun:
    """Run one training and read its last message."""
    start_s = time.monotonic()
    with TemporaryDirectory(prefix="powertrain-study-") as folder:
        message = Path(folder) / "termination-log"
        # The SDK comes last: a training's own packages win.
        sdk = str(Path(powertrain_sdk.__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), sdk]))
        environment = os.environ | spec.environment(batch_size, seed)
        environment |= {"POWERTRAIN_TERMINATION_LOG": str(message), "PYTHONPATH": path}
        try:
            ended = subprocess.run(
                spec.command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            reason = f"still running after {timeout_s:g} s"
            return StudyRun(batch_size, seed, Outcome.FAILED, seconds=time.monotonic() - start_s, reason=reason)
        except OSError as error:
            raise CliError(f"can't run {spec.command[0]!r}: {error.strerror}") from None
        message_text = message.read_text(encoding="utf-8") if message.exists() else ""
        run = run_from_message(batch_size, seed, message_text, ended.returncode, spec.max_samples)
    if run.outcome is not Outcome.FAILED or not ended.stderr.strip():
        return run
    tail = " ".join(ended.stderr.strip()[-TAIL:].split())
    return StudyRun(batch_size, seed, Outcome.FAILED, reason=f"{run.reason}: {tail}")


def python_command(command: list[str]) -> tuple[str, ...]:
    """Return the command with a leading Python file run by this very Python."""
    if command and command[0].endswith(".py"):
        return (sys.executable, *command)
    return tuple(command)
