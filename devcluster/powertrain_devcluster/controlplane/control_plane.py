"""Starts, watches and ends a control plane (etcd, API server, controller-manager, scheduler) of this process."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from powertrain_devcluster import kubeconfig
from powertrain_devcluster.builds.progress import Progress, Silent
from powertrain_devcluster.controlplane import flags
from powertrain_devcluster.controlplane.certificates import KeyPair
from powertrain_devcluster.errors import ClusterError, DiskFullError, PortTakenError
from powertrain_devcluster.janitor import Chores, Janitor
from powertrain_devcluster.process import MARKER, Child, spawn

_ATTEMPTS = 5
_POLL_S = 0.05


def free_port() -> int:
    """A loopback port that nobody has right now; somebody may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class Settings:
    """How a control plane is started; every field has a reason to be changed by somebody."""

    # etcd's write-ahead log takes 64 MB at once, logs and an empty cluster about as much again.
    min_free_bytes: int = 256 * 1024 * 1024
    # Seconds for the slowest machine that we know, times ten.
    start_deadline_s: float = 120.0
    choose_port: Callable[[], int] = free_port
    # Set when a kubelet and pods share the API server's network namespace.
    node_address: str | None = None
    fixed_api_port: int | None = None
    # More flags of the API server: an audit log shows who asked for what, some admission plugins are off by default.
    api_server_flags: tuple[str, ...] = ()
    # Go collects garbage whenever the heap has doubled (100). Heaps are tiny here, so that took a third of the servers'
    # time on a machine that they share with everything else; memory is not what is scarce.
    garbage_percent: int = 400
    # … up to here: a server that lives long on a small machine collects more often instead.
    memory_limit: str = "4GiB"
    # False inside the namespaces of a node, whose owner outside cleans up after all of it.
    cleans_up: bool = True


class ControlPlane:
    """A context manager; inside it `kubeconfig` is an administrator's way to a ready API server.

    Everything lives under `root` and is gone after the exit, except the logs when `logs` lies elsewhere.
    """

    def __init__(
        self,
        binaries: Mapping[str, Path],
        root: Path,
        *,
        logs: Path | None = None,
        progress: Progress | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.root = root
        self.logs = logs or root / "logs"
        self.settings = settings or Settings()
        self.marker = uuid.uuid4().hex if self.settings.cleans_up else os.environ[MARKER]
        self.children: list[Child] = []
        self.nodes: list[str] = []
        self.kubeconfig = root / "kubeconfig"
        self.server = ""
        self._binaries = binaries
        self._progress = progress or Silent()
        self._janitor: Janitor | None = None
        self._context: ssl.SSLContext | None = None
        self.credentials: flags.Credentials

    def __enter__(self) -> ControlPlane:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Return when the API server is ready and pods can be made; on failure the caller stops."""
        if self.settings.cleans_up:
            self._janitor = Janitor(Chores(self.marker, [str(self.root)]))
        deadline_s = time.monotonic() + self.settings.start_deadline_s
        try:
            self._prepare()
            layout = self._start_serving(deadline_s)
            self._start_deciding(layout, deadline_s)
        except OSError as error:
            raise self._disk_error(error) from error

    def stop(self) -> None:
        """End every process and remove the data; safe to call twice and after a failed start."""
        for child in reversed(self.children):
            child.kill()
        self.children.clear()
        if self._janitor is not None:
            self._janitor.finish()
            self._janitor = None

    @property
    def processes(self) -> dict[str, int]:
        """What runs, by its name."""
        return {child.name: child.popen.pid for child in self.children}

    def environment(self) -> dict[str, str]:
        """The environment for processes that must not outlive this cluster."""
        return {**os.environ, MARKER: self.marker}

    def spawn(self, name: str, *arguments: str) -> Child:
        """Start one of the binaries as a child of this cluster."""
        collecting = {"GOGC": str(self.settings.garbage_percent), "GOMEMLIMIT": self.settings.memory_limit}
        env = {**collecting, **self.environment()}
        child = spawn(name, [self._binaries[name], *arguments], self.logs / f"{name}.log", env=env)
        self.children.append(child)
        return child

    def wait(self, what: str, condition: Callable[[], bool], child: Child, deadline_s: float) -> None:
        """Wait for a condition while the process that must bring it about lives."""
        self._progress.waiting(what)
        while not condition():
            if not child.alive:
                raise self._death(child)
            if time.monotonic() > deadline_s:
                raise ClusterError(f"gave up waiting for {what}: {self._last_words(child)}")
            time.sleep(_POLL_S)

    def get(self, url: str) -> int:
        """The HTTP status of a GET as the administrator; 0 when nobody of ours answers."""
        try:
            with urllib.request.urlopen(url, timeout=2, context=self._context) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def ready(self) -> bool:
        """Whether the API server says so itself."""
        return self.get(f"{self.server}/readyz") == 200

    def _prepare(self) -> None:
        self._progress.waiting("certificates")
        self.root.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(self.root).free
        if free_bytes < self.settings.min_free_bytes:
            raise OSError(errno.ENOSPC, f"{free_bytes // 2**20} MiB free")
        address = self.settings.node_address
        self.credentials = flags.issue_credentials(self.root / "pki", (address,) if address else ())
        self._context = ssl.create_default_context(cafile=str(self.credentials.authority.pair.certificate))
        admin = self.credentials.admin
        self._context.load_cert_chain(admin.certificate, admin.key)

    def _start_serving(self, deadline_s: float) -> flags.Layout:
        """etcd and the API server, on other ports when somebody else was faster."""
        for attempt in range(1, _ATTEMPTS + 1):
            choose = self.settings.choose_port
            api_port = self.settings.fixed_api_port or choose()
            layout = flags.Layout(self.root, choose(), api_port, self.settings.node_address)
            self.server = layout.server
            try:
                self._start_storage_and_api(layout, deadline_s)
                return layout
            except PortTakenError:
                if attempt == _ATTEMPTS:
                    raise
                for child in self.children:
                    child.kill()
                self.children.clear()
                shutil.rmtree(self.root / "etcd", ignore_errors=True)
        raise AssertionError("unreachable")

    def _start_storage_and_api(self, layout: flags.Layout, deadline_s: float) -> None:
        etcd = self.spawn("etcd", *flags.etcd(layout, self.credentials))
        more = self.settings.api_server_flags
        api_server = self.spawn("kube-apiserver", *flags.api_server(layout, self.credentials), *more)
        self.wait("etcd", lambda: self.get(f"{layout.etcd}/health") == 200, etcd, deadline_s)
        self.wait("the API server", self.ready, api_server, deadline_s)

    def _start_deciding(self, layout: flags.Layout, deadline_s: float) -> None:
        layout.kubeconfigs.mkdir(exist_ok=True)
        self.write_kubeconfig(self.kubeconfig, self.credentials.admin)
        self.write_kubeconfig(layout.kubeconfigs / "controller-manager", self.credentials.controller_manager)
        self.write_kubeconfig(layout.kubeconfigs / "scheduler", self.credentials.scheduler)
        manager = self.spawn("kube-controller-manager", *flags.controller_manager(layout, self.credentials))
        self.spawn("kube-scheduler", *flags.scheduler(layout))
        account = f"{layout.server}/api/v1/namespaces/default/serviceaccounts/default"
        self.wait("the controller-manager", lambda: self.get(account) == 200, manager, deadline_s)

    def write_kubeconfig(self, path: Path, pair: KeyPair, server: str | None = None) -> None:
        """A way into this cluster for the holder of the key pair."""
        kubeconfig.write(path, "powertrain", server or self.server, self.credentials.authority.pair.certificate, pair)

    def _death(self, child: Child) -> ClusterError:
        tail = child.tail()
        if "no space left on device" in tail:
            return DiskFullError(f"{self.root}: no space left on the disk for the cluster's data")
        if "address already in use" in tail:
            return PortTakenError(f"{child.name}: its port was taken by another process")
        code = child.popen.returncode
        return ClusterError(f"{child.name} ended with code {code} while starting: {self._last_words(child)}")

    def _last_words(self, child: Child) -> str:
        """What a failed start says about a process; its log is named only where it outlives the cluster."""
        return child.last_words() + ("" if child.log.is_relative_to(self.root) else f" (log: {child.log})")

    def _disk_error(self, error: OSError) -> ClusterError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            need = self.settings.min_free_bytes // 2**20
            return DiskFullError(
                f"{self.root}: no space left on the disk ({error.strerror}); a cluster needs {need} MiB"
            )
        return ClusterError(f"{error.filename or self.root}: {error.strerror or error}")
