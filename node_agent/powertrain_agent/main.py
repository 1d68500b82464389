"""The command `powertrain-agent`: finds or simulates the board, takes care of what an earlier run left, and serves."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from powertrain import __version__, devices
from powertrain.api.v1alpha1 import PROTOCOL, NodePolicy, SessionSpec
from powertrain_agent import cluster
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.cores import effective_policy
from powertrain_agent.control.snapshot import BOOT_ID, SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.governing.board_sessions import SiteChanged
from powertrain_agent.governing.ports import ReportStatus
from powertrain_agent.governing.share_reports import SharesKept, tell_nobody
from powertrain_agent.hardware.board import Board, CorePolicy, discover
from powertrain_agent.observing import REASON
from powertrain_agent.planning.messages import SHIPPED_ONLY
from powertrain_agent.process import Process
from powertrain_agent.runtime import Runtime
from powertrain_agent.simulate import SimulatedBoard, behaviour
from powertrain_agent.site import Site
from powertrain_agent.sysfs import Sysfs
from powertrain_agent.telemetry import OffsetSource, PowerSource, open_source
from powertrain_agent.wall_clock import WallClock
from powertrain_kube.log import Log

if TYPE_CHECKING:
    from powertrain_agent.metrics import AgentMetrics

STATE_DIR = "var/lib/powertrain"
STANDALONE = "standalone"
DOCTOR = "doctor"


class SetupError(Exception):
    """Options that can't work together; the message says which would."""


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    options = argparse.ArgumentParser(
        prog="powertrain-agent",
        description="Sets power modes on one Jetson, safely.",
        epilog="`powertrain-agent doctor` tries every knob of the board and puts it back; see its --help.",
    )
    options.add_argument("--host-root", type=Path, default=Path("/"), help="where the host's /sys and /proc are (/)")
    options.add_argument(
        "--state-dir", type=Path, help=f"where to keep the original settings ({STATE_DIR} below the root)"
    )
    options.add_argument("--simulate", metavar="NAME", help=f"simulate a board: {', '.join(devices.names())}")
    options.add_argument("--seed", type=int, default=0, help="seed of the simulated board's noise and boot ids (0)")
    options.add_argument("--time-scale", type=float, default=1.0, help="how much faster simulated time runs (1)")
    options.add_argument(
        "--load",
        metavar="BEHAVIOUR",
        help=f"with --simulate: how loads draw power and the sensor shows it: {', '.join(behaviour.names())}, with any "
        f"',field=value' ({behaviour.DEFAULT}, or as the board was made)",
    )
    options.add_argument(
        "--pods-root",
        type=Path,
        help="with --simulate: the host whose pods train, for its control groups and boots (default: the board's root)",
    )
    options.add_argument("--telemetry", choices=["sysfs", "jtop", "tegrastats"], default="sysfs", help="power source")
    options.add_argument(
        "--power-offset-watts", type=float, default=0.0, help="added to every reading; a policy replaces it (0)"
    )
    options.add_argument(
        "--cpu-cores",
        choices=[p.value for p in CorePolicy],
        default="Fixed",
        help="may cores go offline? A policy replaces it",
    )
    options.add_argument(
        "--references",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of `powertrain reference train`, or one that holds such folders; of these and the shipped "
        "reference the closest is used. Can be given several times",
    )
    options.add_argument("--own-references-only", action="store_true", help="never use the shipped reference")
    options.add_argument(
        "--observe", action="store_true", help="write nothing to the board: metrics, self-check, predicted gain"
    )
    options.add_argument("--standalone", action="store_true", help="no cluster: metrics and guard, no objects")
    options.add_argument(
        "--power-watts", type=float, help="with --standalone: keep the board within this power, whatever trains on it"
    )
    options.add_argument(
        "--metrics-port", type=int, help="serve /metrics and /healthz there (9095 in a cluster, else not at all)"
    )
    cluster.add_options(options)
    options.add_argument("--version", action="version", version=f"powertrain-agent {__version__}")
    return options


def open_board(options: argparse.Namespace) -> tuple[Sysfs, SimulatedBoard | None]:
    """Return the port to the board, and the simulated board where there is one."""
    root: Path = options.host_root
    if options.simulate is None:
        if options.time_scale != 1.0:
            raise SetupError("--time-scale needs --simulate: real time can't be scaled")
        if options.pods_root is not None:
            raise SetupError("--pods-root needs --simulate: a real board's pods run on it")
        if options.load is not None:
            raise SetupError("--load needs --simulate: a real load draws what it draws")
        return Sysfs(root), None
    if root.resolve() == Path("/"):
        raise SetupError("--simulate builds a file tree: name an empty directory with --host-root, not /")
    if options.time_scale <= 0:
        raise SetupError(f"--time-scale must be above 0, not {options.time_scale:g}")
    if not SimulatedBoard.exists(root):
        try:
            board = SimulatedBoard.create(root, options.simulate, seed=options.seed, time_scale=options.time_scale)
        except OSError as error:
            raise SetupError(f"a simulated board can't be made in {root}: {error.strerror}") from None
    else:
        board = SimulatedBoard.open(root, time_scale=options.time_scale)
    if board.device.name != options.simulate:
        raise SetupError(f"{root} holds a simulated {board.device.name}, not {options.simulate}; use another directory")
    if options.load is not None:
        try:
            board.behave(options.load)
        except behaviour.UnknownBehaviourError as error:
            raise SetupError(f"--load: {error}") from None
    if options.pods_root is not None:
        board.boot_with(Sysfs(options.pods_root).read(BOOT_ID).strip())
    return board.sysfs, board


def describe(log: Log, board: Board) -> None:
    """Log what the board is and what can be done with it."""
    identity = board.identity
    if not identity.is_jetson:
        log("board", name=board.name, jetson=False, reason=f"{identity.doubt}: the agent changes nothing here")
    else:
        log("board", name=board.name, model=identity.model, **board.fingerprint().as_dict())
    for capability in board.capabilities.values():
        log(
            "capability",
            knob=capability.knob,
            access=capability.access.value,
            reason=capability.reason,
            legal=list(capability.legal) if capability.knob != "fan" else None,
            unit=capability.unit,
        )


def hold(state_dir: Path, log: Log) -> int | None:
    """Keep a second agent off this board, where each would undo what the other sets; None where nobody can tell."""
    try:
        return StateDir(state_dir).hold()
    except BlockingIOError:
        raise SetupError(
            f"another agent holds {state_dir}, and two on one board would fight over its clocks: end one of them (in a "
            "cluster, let each node match one entry of agent.families only)"
        ) from None
    except OSError as error:
        # A full disk must not keep a board from being guarded.
        log("disk", reason=f"can't check whether another agent runs here: {error}")
        return None


def open_runtime(
    options: argparse.Namespace,
    log: Log,
    report: ReportStatus = lambda status, urgent: None,
    metrics: AgentMetrics | None = None,
    wrap_source: Callable[[PowerSource], PowerSource] = lambda source: source,
    beat: Callable[[], None] = lambda: None,
    site_changed: SiteChanged = lambda in_force, reason, message: None,
    shares_kept: SharesKept = tell_nobody,
    wall: WallClock | None = None,
) -> Runtime:
    """Find the board and build the loop around it; what was found is logged."""
    wall = wall or WallClock()
    sysfs, simulated = open_board(options)
    if options.observe:
        sysfs.read_only = REASON
        log("observe", reason=REASON)
    board = discover(sysfs)
    describe(log, board)
    state_dir: Path = options.state_dir or options.host_root / STATE_DIR
    defaults = NodePolicy.model_validate(
        {"cpuCores": options.cpu_cores, "powerOffsetWatts": options.power_offset_watts}
    )
    site = Site(StateDir(state_dir), defaults, log)
    cores, why = effective_policy(sysfs, board, CorePolicy(site.in_force.cpu_cores.value))
    site.shortfall = why
    if why:
        log("cores", policy=cores.value, reason=why)
    chosen = open_source(options.telemetry, sysfs, board.sensors)
    log("telemetry", source=chosen.source.name if chosen.source else "none", reason=chosen.reason)
    store = SnapshotStore(StateDir(state_dir), sysfs)
    controller = Controller(sysfs, board, store, cores, site.in_force.min_cores or 1, floor=site.in_force.min_mode)
    source = None
    if chosen.source is not None:
        source = wrap_source(OffsetSource(chosen.source, lambda: site.in_force.power_offset_watts))
    log("ready", stateDir=str(state_dir), modes=len(controller.space), timeScale=options.time_scale)
    return Runtime(
        controller,
        source,
        state_dir,
        log,
        report,
        site,
        metrics=metrics,
        simulated=simulated,
        pods=None if options.pods_root is None else Sysfs(options.pods_root),
        beat=beat,
        site_changed=site_changed,
        shares_kept=shares_kept,
        clock_doubt=lambda: wall.doubt,
        lock_fd=hold(state_dir, log) if board.identity.is_jetson else None,
        observing=options.observe,
        references=_references(options, log),
    )


def _references(options: argparse.Namespace, log: Log) -> tuple[str, ...]:
    """Return where references are looked for; what is wrong with a folder is logged, and the others are used."""
    folders: Sequence[Path] = options.references
    shipped = () if options.own_references_only else SHIPPED_ONLY
    if folders:
        # Loads the models, which an idle agent with the shipped reference does without.
        from powertrain.reference import available

        catalogue = available(folders)
        if not catalogue.references and not shipped:
            raise SetupError(f"--own-references-only: {'; '.join(catalogue.problems)}")
        for reference in catalogue.references:
            log("reference", name=reference.card.name, device=reference.card.device, rows=reference.card.rows)
        for problem in catalogue.problems:
            log("reference", reason=problem)
    elif not shipped:
        raise SetupError("--own-references-only needs --references")
    return (*shipped, *map(str, folders))


def serve(options: argparse.Namespace, log: Log, stop: threading.Event) -> None:
    """Run until told to stop. What a job was given stays in force: the next start holds or restores it."""
    own = _own_session(options)
    if cluster.in_cluster(options) and not options.standalone:
        cluster.Joined(options, log, open_runtime, time.monotonic).run(stop)
    elif options.metrics_port is None:
        open_runtime(options, log).run(stop, *own)
    else:
        from powertrain_agent.health import STALE_AFTER_S, BeatingSource
        from powertrain_agent.metrics import AgentMetrics
        from powertrain_kube.health import HealthServer, Pulse

        metrics, pulse = AgentMetrics(), Pulse(time.monotonic, STALE_AFTER_S)
        runtime = open_runtime(
            options,
            log,
            metrics=metrics,
            wrap_source=lambda source: BeatingSource(source, lambda: pulse.beat("sampler")),
            beat=lambda: pulse.beat("loop"),
        )
        server = HealthServer(metrics.registry, pulse.problem, options.metrics_port)
        server.start()
        try:
            runtime.run(stop, *own)
        finally:
            server.stop()
    log("stopped", reason="told to")


def _own_session(options: argparse.Namespace) -> tuple[SessionSpec | None, Process | None]:
    """Return the session of an agent that guards a board by itself, and its own process, to which it belongs."""
    if options.power_watts is None:
        return None, None
    if options.observe:
        raise SetupError("--power-watts needs an agent that may write: leave out --observe")
    if not options.standalone or options.power_watts <= 0:
        raise SetupError(f"--power-watts {options.power_watts:g}: give watts above 0, together with --standalone")
    spec = {
        "protocol": PROTOCOL,
        "uid": STANDALONE,
        "job": {"namespace": "local", "name": STANDALONE},
        "limits": {"powerWatts": options.power_watts},
        "workload": {"name": STANDALONE},
    }
    return SessionSpec.model_validate(spec), Process.of(os.getpid())


def run(arguments: list[str] | None = None) -> None:
    """Run the agent, the entry point of `powertrain-agent`; `powertrain-agent doctor` only tries the board."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == [DOCTOR]:
        from powertrain_agent import doctor_command  # a serving agent does without it

        sys.exit(doctor_command.run(arguments[1:]))
    options = parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        serve(options, Log(), stop)
    except (SetupError, devices.UnknownDeviceError, cluster.ClusterError) as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    run()
