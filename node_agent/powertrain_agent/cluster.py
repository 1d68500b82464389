"""The agent in a cluster: its options, what it says about the board, and the link's news as events of the loop."""

from __future__ import annotations

import argparse
import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from powertrain import PowerMode, __version__, strategies
from powertrain.api.samples import short
from powertrain.api.v1alpha1 import (
    PROTOCOL,
    AgentInfo,
    Capabilities,
    DeviceInfo,
    KnobAccess,
    KnobCapability,
    NodeFigures,
    NodePolicy,
    Phase,
    PowerNodeStatus,
    PowerShare,
    SelfCheck,
    SessionSpec,
    SessionStatus,
    ShareStatus,
    moment,
)
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain_agent.governing.events import (
    ApiAway,
    ApiBack,
    EnvelopeSeen,
    Event,
    PolicySeen,
    PowerNodeGone,
    SharesSeen,
)
from powertrain_agent.hardware.board import Board, CorePolicy
from powertrain_agent.hardware.capability import Access
from powertrain_agent.health import PORT, STALE_AFTER_S, BeatingSource
from powertrain_agent.link import Link, LinkSettings
from powertrain_agent.link.api import FIELD_MANAGER
from powertrain_agent.link.link import POLICY
from powertrain_agent.metrics import AgentMetrics
from powertrain_agent.runtime import Runtime
from powertrain_agent.self_check import self_check
from powertrain_agent.sysfs import Sysfs
from powertrain_agent.telemetry import PowerSource, Reading, RollingMean
from powertrain_agent.wall_clock import WallClock
from powertrain_kube import KubeApi, Log, credentials
from powertrain_kube.health import HealthServer, Pulse

NAMESPACE = "powertrain-system"
_ACCESS = {
    Access.WRITABLE: KnobAccess.WRITABLE,
    Access.READ_ONLY: KnobAccess.READ_ONLY,
    Access.MISSING: KnobAccess.MISSING,
}


class ClusterError(Exception):
    """A cluster that can't be joined with these options; the message says what is missing."""


def add_options(options: argparse.ArgumentParser) -> None:
    """Add the options that only an agent in a cluster has."""
    options.add_argument(
        "--kubeconfig", type=Path, help="kubeconfig of the API server (default: the pod's service account)"
    )
    options.add_argument("--node-name", default=os.environ.get("NODE_NAME"), help="the node ($NODE_NAME)")
    options.add_argument(
        "--namespace",
        default=os.environ.get("POD_NAMESPACE", NAMESPACE),
        help=f"namespace of the node's Lease ($POD_NAMESPACE, else {NAMESPACE})",
    )


def in_cluster(options: argparse.Namespace) -> bool:
    """Say whether there is an API server to talk to."""
    return options.kubeconfig is not None or "KUBERNETES_SERVICE_HOST" in os.environ


def settings(options: argparse.Namespace) -> LinkSettings:
    """Return whose link it is; a node's name is never guessed, because two agents would share an object."""
    if not options.node_name:
        raise ClusterError("an agent in a cluster needs --node-name or $NODE_NAME")
    holder = os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"
    return LinkSettings(options.node_name, options.namespace, holder)


def about(
    board: Board,
    core_policy: CorePolicy,
    modes: int,
    strategies: tuple[str, ...] = (),
    lowest: PowerMode | None = None,
) -> PowerNodeStatus:
    """Return what is known of the board before the first reading."""
    fingerprint = board.fingerprint(core_policy).as_dict()
    knobs = [
        KnobCapability(knob=name, access=_ACCESS[capability.access], reason=capability.reason[:1024])
        for name, capability in board.capabilities.items()
    ]
    return PowerNodeStatus(
        agent=AgentInfo(version=__version__, protocol=PROTOCOL),
        device=DeviceInfo.model_validate({"name": board.name, "model": board.identity.model, **fingerprint}),
        capabilities=Capabilities(
            modes=modes,
            lowest_mode=None if lowest is None else str(lowest),
            knobs=tuple(knobs),
            strategies=strategies,
        ),
    )


class Sight:
    """What the sensors say now, for the status; fed by the sampler and the loop, read by the link's thread."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._mean = RollingMean(DEFAULT_WINDOW_S)
        self._lock = threading.Lock()
        self._step_s: float | None = None

    def take(self, reading: Reading | None) -> None:
        """Take a power reading; None where the sensor gave none, then nothing is known any more."""
        with self._lock:
            if reading is None:
                self._mean.clear()
            else:
                self._mean.add(reading)

    def session(self, status: SessionStatus) -> None:
        """Take the step time of a session's report."""
        self._step_s = status.observed.step_seconds if status.observed else None

    def figures(self, board: Board, sysfs: Sysfs) -> NodeFigures:
        """Return the figures of this moment."""
        with self._lock:
            watts = self._mean.mean_w
        hottest = max(board.thermal.temperatures_c(sysfs).values(), default=None)
        return NodeFigures(
            watts=short(watts) if watts > 0 else None,
            temperature_celsius=None if hottest is None else round(hottest, 1),
            step_seconds=None if self._step_s is None else short(self._step_s),
            at=moment(self._now()),
        )


class QueueInbox:
    """Puts what the link learns into the loop's queue, in the loop's time."""

    def __init__(
        self,
        put: Callable[[Event], None],
        loop_clock: Callable[[], float],
        link_clock: Callable[[], float],
        api_up: Callable[[bool], None] = lambda answers: None,
    ) -> None:
        self._put = put
        self._loop_clock = loop_clock
        self._link_clock = link_clock
        self._api_up = api_up

    def envelope(self, spec: SessionSpec | None, release: str | None, refused: bool = False) -> None:
        """Take note of what the PowerNode asks now."""
        self._api_up(True)
        self._put(EnvelopeSeen(spec, release, self._loop_clock(), refused))

    def policy(self, policy: NodePolicy | None) -> None:
        """Take note of the site's policy."""
        self._put(PolicySeen(policy))

    def shares(self, shares: tuple[PowerShare, ...]) -> None:
        """Take note of the board's shares of PowerBudgets."""
        self._put(SharesSeen(shares))

    def power_node_gone(self) -> None:
        """Take note that the PowerNode is not there."""
        self._api_up(True)
        self._put(PowerNodeGone())

    def api_away(self, since: float) -> None:
        """Take note that the API server has not answered since then."""
        self._api_up(False)
        self._put(ApiAway(self._loop_clock() - (self._link_clock() - since)))

    def api_back(self) -> None:
        """Take note that it answers again."""
        self._api_up(True)
        self._put(ApiBack())


def open_api(options: argparse.Namespace) -> KubeApi:
    """Return the way to the API server; it need not answer yet."""
    try:
        return KubeApi(lambda: credentials(options.kubeconfig), FIELD_MANAGER)
    except Exception as error:  # the library raises many kinds, also for missing files and bad base64
        where = options.kubeconfig or "the pod's service account"
        raise ClusterError(f"the credentials for the API server can't be read from {where}: {error}") from error


class Joined:
    """An agent that has joined a cluster: its loop, its link, its metrics and its health endpoint."""

    def __init__(
        self, options: argparse.Namespace, log: Log, open_runtime: Callable[..., Runtime], clock: Callable[[], float]
    ) -> None:
        whose, api = settings(options), open_api(options)
        self._log, self._checked_after = log, ""
        self._pulse, self._sight, metrics = Pulse(clock, STALE_AFTER_S), Sight(), AgentMetrics()
        wall = WallClock(on_offset=metrics.clock_ahead)
        api.on_server_date = wall.compare
        self._runtime = open_runtime(
            options,
            log,
            report=self._report,
            metrics=metrics,
            wrap_source=self._beating,
            beat=self._loop_beat,
            site_changed=self._site_changed,
            shares_kept=self._shares_kept,
            wall=wall,
        )
        inbox = QueueInbox(self._runtime.put, self._runtime.clock, clock, metrics.api_up)
        self._controller = self._runtime.board_restorer.controller
        self._link = Link(
            whose,
            api,
            inbox,
            log,
            clock=clock,
            figures=self._figures,
            history=lambda: self._runtime.recorder.published,
            healthy=self._pulse.problem,
        )
        port = PORT if options.metrics_port is None else options.metrics_port
        self._server = HealthServer(metrics.registry, self._problem, port)
        log("metrics", port=self._server.port)

    def run(self, stop: threading.Event) -> None:
        """Serve until told to stop; the board keeps its mode."""
        self._server.start()
        self._link.start(self._about())
        try:
            self._runtime.run(stop)
        finally:
            self._link.stop()
            self._server.stop()

    def _about(self) -> PowerNodeStatus:
        controller, space = self._controller, self._controller.space
        facts = about(controller.board, controller.core_policy, len(space), strategies.runnable(), space[0])
        agent = facts.agent.model_copy(update={"observes": self._runtime.observing})
        return facts.model_copy(update={"agent": agent, "self_check": self._checked()})

    def _checked(self) -> SelfCheck | None:
        """Examine the board; a board that can't even be read is served all the same, and guarded as far as possible."""
        try:
            return self_check(self._controller.sysfs, self._runtime.state_dir, lambda: datetime.now(UTC))
        except Exception as error:
            self._log("error", reason=f"the self-check: {error!r}"[:500])
            return None

    def _site_changed(self, in_force: bool, reason: str, message: str) -> None:
        self._link.describe(self._about())
        self._link.condition(POLICY, in_force, reason, message)

    def _shares_kept(self, shares: tuple[ShareStatus, ...]) -> None:
        self._link.shares_kept(shares)

    def _report(self, status: SessionStatus, urgent: bool) -> None:
        self._sight.session(status)
        self._link.report(status, urgent)
        if status.phase is Phase.ENDED and status.restored and status.uid != self._checked_after:
            self._checked_after = status.uid  # after a session, and not in it: nothing may disturb what is measured
            self._link.describe(self._about(), urgent=False)

    def _beating(self, source: PowerSource) -> PowerSource:
        return BeatingSource(source, lambda: self._pulse.beat("sampler"), self._sight.take)

    def _loop_beat(self) -> None:
        self._pulse.beat("loop")

    def _figures(self) -> NodeFigures:
        idle_w = self._runtime.site.shares.idle.watts
        figures = self._sight.figures(self._controller.board, self._controller.sysfs)
        if gain := self._runtime.gain:
            shares = {"expected_speedup_percent": gain.speedup, "expected_power_saving_percent": gain.power_saving}
            figures = figures.model_copy(update={key: round(100 * share, 1) for key, share in shares.items()})
        return figures if idle_w is None else figures.model_copy(update={"idle_watts": short(idle_w)})

    def _problem(self) -> str:
        return self._pulse.problem() or self._link.dead_threads()
