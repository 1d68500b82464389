"""Commits the documentation of this release to the branch gh-pages, in a folder of its own, by mike.

Usage: python hack/publish_docs.py [--push]

The folder is named after major and minor version (a patch release replaces it); `latest` points to the newest one, and
the site opens there. Without --push only the local branch changes. DOCS_REPO_URL, if set, gives pages their edit links.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from mike import driver

import powertrain

ROOT = Path(__file__).resolve().parent.parent
LATEST = "latest"


def main(arguments: list[str]) -> int:
    """Deploy and point `latest` there; mike's exit code."""
    if [each for each in arguments if each != "--push"]:
        sys.exit(f"unknown arguments {arguments}; known: --push")
    os.chdir(ROOT)
    major, minor, *_ = powertrain.__version__.split(".")
    folder = f"{major}.{minor}"
    with tempfile.TemporaryDirectory() as programs:
        _offer_mkdocs(Path(programs))
        steps = (
            ["deploy", "--update-aliases", "--title", powertrain.__version__, *arguments, folder, LATEST],
            ["set-default", *arguments, LATEST],
        )
        for step in steps:
            if code := _mike(step):
                return code
    return 0


def _offer_mkdocs(folder: Path) -> None:
    """Put the command `mkdocs`, which mike calls, on the PATH: .venv has the packages of layers, not their commands."""
    command = folder / "mkdocs"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mkdocs "$@"\n')
    command.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    os.environ["NO_MKDOCS_2_WARNING"] = "1"


def _mike(arguments: list[str]) -> int:
    sys.argv = ["mike", *arguments]
    return int(driver.main() or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
