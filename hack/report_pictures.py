"""Draws the pictures of the report page for the documentation, from a page and a real headless browser.

Usage: python hack/report_pictures.py PAGE.html
"""

from __future__ import annotations

import sys
from pathlib import Path

from powertrain_devcluster.builds.progress import for_stream
from powertrain_devcluster.tools.chromium import browser
from powertrain_devcluster.tools.pages import opened

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images"
DRAWN = "document.documentElement.dataset.drawn === 'yes'"


def main(page: Path) -> None:
    """Write one picture per colour scheme."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with for_stream() as progress:
        program = browser(progress)
    with opened(program) as tab:
        tab.page.set_viewport_size({"width": 1000, "height": 1220})
        tab.page.emulate_media(color_scheme="light")
        tab.open(page, DRAWN)
        tab.page.screenshot(path=TARGET / "report-light.png")
        tab.page.emulate_media(color_scheme="dark")
        tab.open(page, DRAWN)
        tab.page.screenshot(path=TARGET / "report-dark.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
