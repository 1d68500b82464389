"""Copies this package into a directory that the training container mounts: `python -m powertrain_sdk.install DIR`."""

import argparse
import os
import shutil
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional


def install(directory: str) -> str:
    """Put the package into the directory, replacing an earlier copy; return what goes first in PYTHONPATH."""
    source = os.path.dirname(os.path.abspath(__file__))
    name = os.path.basename(source)
    os.makedirs(directory, exist_ok=True)
    # Copied beside and renamed, so that a Python that starts meanwhile finds the old one, the new one or none.
    staging = tempfile.mkdtemp(prefix=".powertrain-", dir=directory)
    try:
        fresh = os.path.join(staging, "new")
        shutil.copytree(source, fresh, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        _open_to_all(fresh)
        target = os.path.join(directory, name)
        if os.path.isdir(target):
            os.rename(target, os.path.join(staging, "old"))
        os.rename(fresh, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return os.path.join(target, "auto")


def _open_to_all(directory: str) -> None:
    # The training may run as any user, whatever the umask here.
    for parent, _, files in os.walk(directory):
        os.chmod(parent, 0o755)
        for name in files:
            os.chmod(os.path.join(parent, name), 0o644)


def main(arguments: "Optional[List[str]]" = None) -> int:
    """Install and print the PYTHONPATH entry."""
    parser = argparse.ArgumentParser(prog="python -m powertrain_sdk.install", description=__doc__)
    parser.add_argument("directory", metavar="DIR")
    options = parser.parse_args(arguments)
    try:
        entry = install(options.directory)
    except OSError as error:
        sys.stderr.write("powertrain: the SDK can't be copied to %s: %s\n" % (options.directory, error))
        return 1
    sys.stdout.write("powertrain: put this first in PYTHONPATH: %s\n" % entry)
    return 0


if __name__ == "__main__":
    sys.exit(main())
