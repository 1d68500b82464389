"""The documentation as a zip of a web site."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from reproducible_archives import ROOT, epoch, zip_tree

from powertrain import __version__


def build(out: Path, scratch: Path) -> Path:
    """Build the site, strictly; mkdocs takes its date from SOURCE_DATE_EPOCH."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch()), "NO_MKDOCS_2_WARNING": "1"}
    folder = scratch / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    target = out / f"powertrain-docs-{__version__}.zip"
    zip_tree(folder, target)
    return target
