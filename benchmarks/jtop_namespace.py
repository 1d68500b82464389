"""Runs a command beside a real jtop service that sees a simulated board's tree as its own /sys.

    python benchmarks/jtop_namespace.py TREE COMMAND…

jtop's paths are hard-coded, so the tree is mounted over /sys (and a private /run and /etc/group) in a mount namespace
of its own: nothing outside changes. Needs root, `unshare` and jetson-stats; says which one is missing and ends with 77.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CANNOT = 77
INSIDE = "POWERTRAIN_JTOP_NAMESPACE"


def obstacle() -> str:
    """Return what keeps this machine from running the service, empty if nothing does."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return "needs unshare and mount"
    probe = subprocess.run(["unshare", "--mount", "--propagation", "private", "true"], capture_output=True, check=False)
    if probe.returncode:
        return f"a mount namespace is not allowed here: {probe.stderr.decode().strip()}"
    try:
        import jtop  # noqa: F401
    except ImportError as error:
        return f"jetson-stats is not installed ({error})"
    return ""


def mount_tree(tree: Path, scratch: Path) -> None:
    """Put the tree, an empty /run and a group file with jtop in it where the service looks."""
    board = tree / "sys/devices/virtual/dmi/id"  # the service asks a PC for its name
    board.mkdir(parents=True, exist_ok=True)
    for name in ("board_name", "board_vendor", "product_name"):
        (board / name).write_text("simulated\n", encoding="utf-8")
    groups = Path("/etc/group").read_text(encoding="utf-8")
    (scratch / "group").write_text(groups + "jtop:x:64999:\n", encoding="utf-8")
    for command in (
        ["mount", "--bind", str(scratch / "group"), "/etc/group"],
        ["mount", "--bind", str(tree / "sys"), "/sys"],
        ["mount", "-t", "tmpfs", "tmpfs", "/run"],
    ):
        subprocess.run(command, check=True)


def serve(tree: Path, command: list[str]) -> int:
    """Start the service, run the command, stop the service."""
    with tempfile.TemporaryDirectory() as scratch:
        mount_tree(tree, Path(scratch))
        sys.base_prefix = scratch  # the service keeps its settings below it
        from jtop.service import JtopServer

        server = JtopServer(force=True)
        server.start()
        try:
            return subprocess.run(
                command, check=False, env={**os.environ, "JTOP_SERVICE_PID": str(server.pid)}
            ).returncode
        finally:
            with contextlib.suppress(Exception):
                server.close()


def main(arguments: list[str]) -> int:
    """Enter the namespace first, then serve."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    if INSIDE in os.environ:
        return serve(Path(arguments[0]), arguments[1:])
    reason = obstacle()
    if reason:
        print(f"jtop's service can't run here: {reason}", file=sys.stderr)
        return CANNOT
    inside = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__, *arguments]
    return subprocess.run(inside, check=False, env={**os.environ, INSIDE: "1"}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
