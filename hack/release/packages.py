"""Wheels and source distributions of the product, the SDK and the development cluster."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from reproducible_archives import ROOT

HOMES = (ROOT, ROOT / "sdk", ROOT / "devcluster")


def build(out: Path) -> list[Path]:
    """Write them; hatchling takes its dates from SOURCE_DATE_EPOCH."""
    files = []
    for home in HOMES:
        files += [Path(path) for path in WheelBuilder(str(home)).build(directory=str(out), versions=["standard"])]
        files += [Path(path) for path in SdistBuilder(str(home)).build(directory=str(out), versions=["standard"])]
    return files
