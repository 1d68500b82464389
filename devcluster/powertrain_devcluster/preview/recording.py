"""Records whole jobs: the demo at the speed of real boards, scraped by a real Prometheus whose data is kept."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from powertrain_cli.jobs import budget_report
from powertrain_cli.jobs.connection import connected
from powertrain_cli.jobs.report import collect
from powertrain_cli.output import stderr
from powertrain_cli.report.output import write
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.demo.run import DemoRun
from powertrain_devcluster.demo.scenario import BOARDS, JOB, NAMESPACE, SITE, Settings
from powertrain_devcluster.demo.view import View
from powertrain_devcluster.fleet import Fleet
from powertrain_devcluster.paths import source_root
from powertrain_devcluster.tools import prometheus
from powertrain_devcluster.tools.prometheus import Prometheus, Target

# Counters of energy and steps are in the board's time: only at the wall clock's speed are their rates watts.
SETTINGS = Settings(time_scale=1.0, max_modes=8, site_s=60.0)
SPAN = "span.json"
BUDGET_PAGE = f"{SITE}-prometheus.html"
# Before and after the jobs, so that the pictures show idle boards too.
IDLE_S = 60.0
SCRAPE_S = 2.0
SESSION_END = f'max(max_over_time(timestamp(powertrain_session_info{{job="{NAMESPACE}/{JOB}"}})[1h:{SCRAPE_S:g}s]))'


@dataclass(frozen=True)
class Recording:
    """A folder with the data of a Prometheus, which stretch of time it holds, and until when the first job ran."""

    root: Path
    began_s: float
    job_ended_s: float
    ended_s: float

    @contextmanager
    def served(self, progress: Progress) -> Iterator[str]:
        """Serve the data; gives the address."""
        with Prometheus(prometheus.programs(progress), self.root, []) as server:
            yield server.url


def load(root: Path) -> Recording | None:
    """Return the recording of a folder, None where there is none."""
    span = root / SPAN
    if not span.is_file():
        return None
    return Recording(root, **json.loads(span.read_text(encoding="utf-8")))


def record(root: Path, progress: Progress) -> Recording:
    """Run the demo with its site under a Prometheus and keep its data, and report pages from both sources."""
    programs = binaries.resolve(binaries.CONTROL_PLANE, progress)
    scraper = prometheus.programs(progress)
    demo = DemoRun(SETTINGS, View(stderr()))
    rules = source_root() / "charts/powertrain/files/rules.yaml"
    shutil.rmtree(root, ignore_errors=True)
    with (
        demo.cluster(programs) as fleet,
        Prometheus(scraper, root, list(_targets(fleet)), [rules], interval_s=SCRAPE_S) as server,
    ):
        demo.before_site_ends = lambda: _write_pages(fleet, server.url, root)
        began_s = time.time()
        time.sleep(IDLE_S)
        demo.run(fleet)
        time.sleep(IDLE_S)
        job_ended_s = float(server.query(SESSION_END)[0]["value"][1])
        recording = Recording(root, began_s, job_ended_s, time.time())
    span = {"began_s": began_s, "job_ended_s": job_ended_s, "ended_s": recording.ended_s}
    (root / SPAN).write_text(json.dumps(span), encoding="utf-8")
    return recording


def _write_pages(fleet: Fleet, url: str, root: Path) -> None:
    """Write the report of the first job and of the budget, by what the cluster keeps and by Prometheus."""
    with connected(fleet.kubeconfig, NAMESPACE) as cluster:
        for name, source in (("kept", None), ("prometheus", url)):
            write(collect(cluster, JOB, source), root / f"{JOB}-{name}.html")
            write(budget_report.collect(cluster, SITE, source), root / f"{SITE}-{name}.html")


def _targets(fleet: Fleet) -> Iterator[Target]:
    """Yield what the chart's monitors would scrape, with the labels that they give."""
    yield Target(f"127.0.0.1:{_port(fleet.logs / 'operator.log', 'serving')}", {"component": "operator"})
    for board in BOARDS:
        address = f"127.0.0.1:{_port(fleet.logs / f'agent-{board.node}.log', 'metrics')}"
        yield Target(address, {"component": "agent", "node": board.node})


def _port(log: Path, event: str) -> int:
    lines = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{"))
    return int([line["port"] for line in lines if line.get("event") == event][-1])
