"""The guest's server: takes one request a line, runs each in a process of its own, and answers with one line.

Libraries are imported here, before the machine's state is saved; the agent's code comes with the first request, from a
disk. A process that is forked from here starts at once, and a test may kill it at any point.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
import tty
from pathlib import Path
from typing import Any

LIBRARIES = ("numpy", "pydantic", "prometheus_client", "scipy.optimize", "scipy.linalg", "argparse", "asyncio", "ssl")
OURS = ("power", "knobs", "play")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request asks for and return what it came to."""
    if "begin" in request:
        return begin(request["begin"])
    if "shell" in request:
        process = subprocess.run(
            ["/usr/bin/busybox", "sh", "-c", request["shell"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return {"code": process.returncode, "output": process.stdout.decode(errors="replace")}
    return call(request)


def begin(release: str) -> dict[str, Any]:
    """Unpack this checkout's code, import it, and put on the board's release."""
    try:
        subprocess.run(["/usr/bin/busybox", "tar", "-x", "-f", "/dev/code-disk", "-C", "/"], check=True)
        Path("/etc/nv_tegra_release").write_text(
            f"# {release}, GCID: 0, BOARD: generic, EABI: aarch64, DATE: qemu\n", encoding="utf-8"
        )
        importlib.invalidate_caches()
        for name in OURS:
            importlib.import_module(name)
    except Exception:
        return {"code": 1, "output": traceback.format_exc()}
    return {"code": 0, "output": ""}


def call(request: dict[str, Any]) -> dict[str, Any]:
    """Call a function in a process of its own."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as result:
        child = os.fork()
        if child == 0:
            run(request, output.fileno(), result.fileno())
        _, status = os.waitpid(child, 0)
        output.seek(0)
        result.seek(0)
        printed = result.read()
        value = json.loads(printed) if printed else None
        return {"code": os.waitstatus_to_exitcode(status), "output": output.read(), "result": value}


def run(request: dict[str, Any], output: int, result: int) -> None:
    """Call the function and end the process; its output and its result go to the two files."""
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    code = 0
    try:
        module, _, function = request["call"].partition(":")
        value = getattr(importlib.import_module(module), function)(**request["arguments"])
        os.write(result, json.dumps(value).encode())
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Say that the machine is up, then serve until the other side is gone."""
    tty.setraw(0)
    reader, writer = os.fdopen(0, "r", encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
    for name in LIBRARIES:
        importlib.import_module(name)
    reply: dict[str, Any] = {"code": 0, "output": "up"}
    while True:
        writer.write(json.dumps(reply) + "\n")
        writer.flush()
        line = reader.readline()
        if not line:
            return
        reply = answer(json.loads(line))


if __name__ == "__main__":
    main()
