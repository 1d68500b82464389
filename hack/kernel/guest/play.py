"""Plays one list of operations on a board, a real kernel's or a simulated one, and writes down the answers."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

from powertrain_agent.hardware.board import Board, discover
from powertrain_agent.hardware.cpu import BASE
from powertrain_agent.sysfs import Sysfs, SysfsError


def play(sysfs: Sysfs, operations: Iterable[list[str]]) -> list[dict[str, Any]]:
    """Write each text to each file, then read the files named after it; a dash writes nothing."""
    board = discover(sysfs)
    answers = []
    for name, text, *knobs_to_read in operations:
        answer = {"write": "" if text == "-" else _write(sysfs, _path(board, name), text)}
        answer |= {knob: _read(sysfs, _path(board, knob)) for knob in (knobs_to_read or [name])}
        answers.append(answer)
    return answers


def on_the_kernel(operations: list[list[str]]) -> list[dict[str, Any]]:
    """Play on the kernel of this machine."""
    return play(Sysfs(), operations)


def _path(board: Board, name: str) -> str:
    """Return the file of a short name: policy4/scaling_min_freq, gpu/min_freq, cpu3/online, online, fan."""
    head, _, rest = name.partition("/")
    if head == "gpu" and board.gpu is not None:
        return f"{board.gpu.path}/{rest}"
    if head == "fan" and board.fan is not None:
        return board.fan.pwm_path
    return f"{BASE}/cpufreq/{name}" if head.startswith("policy") else f"{BASE}/{name}"


def _write(sysfs: Sysfs, path: str, text: str) -> str:
    try:
        sysfs.write(path, text)
    except SysfsError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return ""


def _read(sysfs: Sysfs, path: str) -> str:
    try:
        return sysfs.read(path)
    except SysfsError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
