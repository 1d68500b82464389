"""Draws the pictures of the report page for the documentation, from a page and a real headless browser.

Usage: python hack/report_pictures.py PAGE.html
"""

from __future__ import annotations

import sys
from pathlib import Path

from powertrain_devcluster.builds.progress import for_stream
from powertrain_devcluster.tools.chromium import browser
from powertrain_devcluster.tools.devtools import Page

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images"
DRAWN = "document.documentElement.dataset.drawn === 'yes'"


def main(page: Path) -> None:
    """Write one picture per colour scheme."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with for_stream() as progress:
        program = browser(progress)
    with Page(program) as tab:
        for scheme in ("light", "dark"):
            tab.size(1000, 1220)
            tab.media("screen", scheme)
            tab.open(page, DRAWN)
            (TARGET / f"report-{scheme}.png").write_bytes(tab.picture())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
