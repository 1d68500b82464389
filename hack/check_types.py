"""Checks the types with a cache that all clones on this machine share.

A fresh clone would else spend more time on types than on all other checks together. mypy compares what it knows with
the sources' hashes and with its own version and options, so entries of another commit do no harm. One process at a time
has the cache: mypy does not promise that two may write it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "powertrain" / "mypy"


def main(arguments: list[str]) -> int:
    """Run mypy; its exit code."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "mypy", f"--cache-dir={CACHE}", *arguments]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
