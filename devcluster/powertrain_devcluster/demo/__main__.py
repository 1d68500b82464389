"""Runs the demo: `python -m powertrain_devcluster.demo [--fast] [--no-site] [--keep] [--plot FILE]`."""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from urllib3.exceptions import HTTPError

from powertrain_cli.errors import CliError, Exit
from powertrain_cli.jobs import screens
from powertrain_cli.output import stderr, stdout
from powertrain_cli.plots import check_target
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.builds.progress import for_stream
from powertrain_devcluster.demo.report import summary, table
from powertrain_devcluster.demo.run import DemoRun
from powertrain_devcluster.demo.scenario import FAST, JOB, SITE, SITE_W, Settings
from powertrain_devcluster.demo.site import SiteRun
from powertrain_devcluster.demo.site import plot as plot_sum
from powertrain_devcluster.demo.view import View
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.fleet import Fleet
from powertrain_kube import ApiError

PLOT = Path("build/demo-front.svg")
INTRO = """\
Three simulated Jetsons in a real Kubernetes on this machine. One TrainingJob, a power budget for each board: they look
for their fastest power mode while they train. Every figure is measured in this run, on the simulator."""
NOTE = """\
"true" is what the simulator's model says of a mode, without a sensor's noise; brute force knows it for every mode.
"time" is against brute force."""
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    options = _parser().parse_args(arguments)
    for number in SIGNALS:
        # What is ignored stays so: `nohup make demo ARGS=--keep` outlives its terminal.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    # What the nodes' own threads note would run into the picture; what matters of it ends the demo.
    logging.getLogger("powertrain_devcluster").addHandler(logging.NullHandler())
    began_s = time.monotonic()
    try:
        _run(options, FAST if options.fast else Settings(), began_s)
    except KeyboardInterrupt:
        _complain("interrupted; nothing was left behind")
        return INTERRUPTED
    except (ClusterError, CliError) as error:
        _complain(f"error: {error}", "red")
        return int(error.code) if isinstance(error, CliError) else error.exit_code
    except (OSError, ApiError, HTTPError) as error:
        _complain(f"error: {_words(error)}", "red")
        return int(Exit.ENVIRONMENT)
    return 0


def _words(error: Exception) -> str:
    """Return in one line what this machine, or the cluster on it, could not do."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError):
        return str(error)
    return f"the demo's API server does not answer as it should: {' '.join(str(error).split())}"


def _complain(text: str, style: str = "") -> None:
    """Tell it on stderr; a terminal that was closed hears nothing any more."""
    with contextlib.suppress(OSError):
        stderr().print(text, style=style, markup=False, soft_wrap=True)


def _parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="make demo ARGS=…", description="PowerTrain from apply to restore.")
    options.add_argument("--fast", action="store_true", help="try fewer modes, for a quick check")
    options.add_argument("--no-site", action="store_true", help="leave out the part with one cap over all three boards")
    options.add_argument("--keep", action="store_true", help="leave the cluster up until Ctrl-C")
    options.add_argument("--plot", type=Path, default=PLOT, help=f"where to draw the fronts ({PLOT})")
    return options


def _run(options: argparse.Namespace, settings: Settings, began_s: float) -> None:
    say = stdout()
    say.print(INTRO, markup=False, soft_wrap=True)
    options.plot.parent.mkdir(parents=True, exist_ok=True)
    check_target(options.plot)
    # The first time this is a build of minutes, so it has the terminal for itself.
    with for_stream() as progress:
        programs = binaries.resolve(binaries.CONTROL_PLANE, progress)
    view = View(say)
    demo = DemoRun(settings, view, with_site=not options.no_site)
    with contextlib.ExitStack() as cluster:
        with view:
            fleet = cluster.enter_context(demo.cluster(programs))
            demo.before_site_ends = lambda: _write_budget_page(fleet, _budget_page(options.plot))
            demo.run(fleet)
        _report(demo, fleet, options.plot)
        say.print(f"\nall of it took {time.monotonic() - began_s:.0f} s", markup=False)
        if options.keep:
            _keep(fleet)
        else:
            say.print("look around next time with: make demo ARGS=--keep", markup=False)


def _report(demo: DemoRun, fleet: Fleet, plot: Path) -> None:
    say = stdout()
    say.print()
    screens.show(table(demo.outcomes))
    say.print(NOTE, style="dim", markup=False, soft_wrap=True)
    say.print()
    for line in summary(demo.outcomes):
        say.print(line, markup=False, soft_wrap=True)
    if demo.site is not None:
        _report_site(demo.site)
        address = _budget_page(plot).resolve().as_uri()
        say.print(f"the report of the budget: {address}", markup=False, soft_wrap=True)
    _draw(fleet, plot)
    say.print(f"\nfronts, predicted and measured: {plot}", markup=False, soft_wrap=True)
    page = _write_page(fleet, plot.with_name(f"{JOB}.html"))
    say.print(f"the report, open it in a browser: {page.resolve().as_uri()}", markup=False, soft_wrap=True)


def _report_site(site: SiteRun) -> None:
    say = stdout()
    say.print("\nOne cap over all boards: what they drew together, mean over 3 s of board time", style="bold")
    for line in plot_sum(site.drawn_w, SITE_W):
        say.print(line, markup=False)
    highest_w = max(site.drawn_w, default=0.0)
    words = (
        f"at most {highest_w:.1f} of {SITE_W:g} W; when one job ended its watts went to the others: {site.passed_on}"
    )
    say.print(words, markup=False, soft_wrap=True)


def _draw(fleet: Fleet, plot: Path) -> None:
    from powertrain.api.resources import TRAINING_JOBS
    from powertrain_cli.jobs.commands import read_job_and_nodes
    from powertrain_cli.jobs.connection import connected
    from powertrain_cli.jobs.explain import fronts
    from powertrain_cli.jobs.front_plot import draw_fronts

    with connected(fleet.kubeconfig, "default") as cluster:
        raw, power_nodes = read_job_and_nodes(cluster, JOB)
        draw_fronts(f"{TRAINING_JOBS.kind} {JOB}: front and measured modes", fronts(cluster, raw, power_nodes), plot)


def _write_page(fleet: Fleet, target: Path) -> Path:
    from powertrain_cli.jobs.connection import connected
    from powertrain_cli.jobs.report import collect
    from powertrain_cli.report.output import write

    with connected(fleet.kubeconfig, "default") as cluster:
        write(collect(cluster, JOB), target)
    return target


def _budget_page(plot: Path) -> Path:
    return plot.with_name(f"powerbudget-{SITE}.html")


def _write_budget_page(fleet: Fleet, target: Path) -> None:
    from powertrain_cli.jobs.budget_report import collect
    from powertrain_cli.jobs.connection import connected
    from powertrain_cli.report.output import write

    with connected(fleet.kubeconfig, "default") as cluster:
        write(collect(cluster, SITE), target)


def _keep(fleet: Fleet) -> None:
    say = stdout()
    lines = [
        "\nThe cluster stays up until you press Ctrl-C here. In another terminal:",
        "  source .venv/bin/activate",
        f"  export KUBECONFIG={fleet.kubeconfig}",
        f"  powertrain nodes; powertrain explain {JOB}; powertrain front {JOB}; powertrain profiles",
        "  powertrain submit examples/mobilenet-v3.yaml && powertrain status mobilenet-v3",
    ]
    say.print("\n".join(lines), markup=False, soft_wrap=True)
    sys.stdout.flush()
    while all(child.alive for child in fleet.agents.values()):
        time.sleep(0.5)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End it once; whoever is impatient must not cut short what takes the cluster down."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
