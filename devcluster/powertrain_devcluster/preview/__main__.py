"""Draws the dashboards: `python -m powertrain_devcluster.preview [--again] [--docs]`, see `make dashboards-preview`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from powertrain_devcluster.builds import grafana
from powertrain_devcluster.builds.progress import Progress, for_stream
from powertrain_devcluster.demo.scenario import BOARDS, JOB, NAMESPACE
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.paths import source_root
from powertrain_devcluster.preview.recording import BUDGET_PAGE, IDLE_S, Recording, load, record
from powertrain_devcluster.tools.chromium import browser
from powertrain_devcluster.tools.grafana import Grafana
from powertrain_devcluster.tools.pages import Tab, opened

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

DATA, PICTURES = Path("build/dashboards"), Path("build/dashboards/pictures")
WIDTH = 1280
HEIGHTS = {"fleet": 2440, "node": 1880, "job": 1700}
# Every panel has asked and got its answer: none shows its loading bar.
DRAWN = (
    "document.querySelectorAll('.react-grid-item').length > 4"
    " && !document.querySelector('[aria-label=\"Panel loading bar\"]')"
)
REPORT_DRAWN = "document.documentElement.dataset.drawn === 'yes'"
BUDGET_SIZE: ViewportSize = {"width": 1000, "height": 1040}
SETTLE_MS = 3_000
# A job that ends takes its rates down with it.
BEFORE_END_S = 20.0


@dataclass(frozen=True)
class Picture:
    """One dashboard over a stretch of the recording."""

    name: str
    dashboard: str
    began_s: float
    ended_s: float
    variables: str = ""

    @property
    def path(self) -> str:
        """The path and query of the page in Grafana."""
        span = f"from={self.began_s * 1e3:.0f}&to={self.ended_s * 1e3:.0f}"
        return f"/d/powertrain-{self.dashboard}?{span}{self.variables}&refresh=&kiosk"


def pictures(recording: Recording) -> Iterator[Picture]:
    """Yield the dashboards over the whole recording, the job's while it ran, and all boards idle."""
    began_s, ended_s = recording.began_s, recording.ended_s
    node = f"&var-node={BOARDS[0].node}"
    yield Picture("dashboard-fleet", "fleet", began_s, ended_s)
    yield Picture("dashboard-node", "node", began_s, ended_s, node)
    job_s = recording.job_ended_s - BEFORE_END_S
    yield Picture("dashboard-job", "job", began_s, job_s, f"&var-job={NAMESPACE}%2F{JOB}")
    for name, variables in (("fleet", ""), ("node", node)):
        yield Picture(f"idle-{name}", name, began_s, began_s + IDLE_S, variables)


def main() -> int:
    """Record jobs where none are recorded yet, and write a picture of each dashboard."""
    options = argparse.ArgumentParser(prog="make dashboards-preview ARGS=…", description="Pictures of the dashboards.")
    options.add_argument("--again", action="store_true", help="record the jobs again, 15 minutes")
    options.add_argument("--docs", action="store_true", help="write the pictures of docs/images as well")
    arguments = options.parse_args()
    try:
        with for_stream() as progress:
            recording = (None if arguments.again else load(DATA)) or record(DATA, progress)
            draw(recording, progress)
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    if arguments.docs:
        for file in [*PICTURES.glob("dashboard-*.png"), *PICTURES.glob("report-*.png")]:
            (source_root() / "docs/images" / file.name).write_bytes(file.read_bytes())
    sys.stdout.write(f"pictures: {PICTURES}\n")
    return 0


def draw(recording: Recording, progress: Progress) -> None:
    """Draw each picture; a message of the browser's console is an error."""
    folder, program = grafana.programs(progress), browser(progress)
    dashboards = source_root() / "charts/powertrain/files/dashboards"
    PICTURES.mkdir(parents=True, exist_ok=True)
    with (
        recording.served(progress) as url,
        Grafana(folder, recording.root.resolve() / "grafana", dashboards, url) as server,
        opened(program) as tab,
    ):
        for picture in pictures(recording):
            progress.waiting(f"the picture {picture.name}")
            _draw(tab, server.url, picture)
        progress.waiting("the picture of the budget's report")
        tab.page.set_viewport_size(BUDGET_SIZE)
        tab.open(recording.root / BUDGET_PAGE, REPORT_DRAWN)
        tab.page.screenshot(path=PICTURES / "report-budget.png")
        if tab.problems:
            raise ClusterError(f"the browser says of the dashboards: {'; '.join(tab.problems)}")


def _draw(tab: Tab, url: str, picture: Picture) -> None:
    tab.page.set_viewport_size({"width": WIDTH, "height": HEIGHTS[picture.dashboard]})
    tab.page.goto(url + picture.path)
    tab.page.wait_for_function(DRAWN)
    # Grafana tells nobody when its charts are painted.
    tab.page.wait_for_timeout(SETTLE_MS)
    tab.page.screenshot(path=PICTURES / f"{picture.name}.png")


if __name__ == "__main__":
    sys.exit(main())
