"""Runs one pod of a simulated node as local processes, from its init containers to its last word."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from powertrain_devcluster.process import spawn
from powertrain_devcluster.standin import spec as standin_spec
from powertrain_devcluster.standin import volumes as standin_volumes
from powertrain_devcluster.standin.cgroup import PodCgroup
from powertrain_devcluster.standin.spec import TERMINATION_PATH, Addresses, CannotStartError, Sources
from powertrain_devcluster.standin.status import (
    TERMINATION_BYTES,
    ContainerState,
    keep_transitions,
    phase,
    pod_status,
    timestamp,
)
from powertrain_kube import ApiError, ConflictError, KubeApi, NotFoundError

Object = dict[str, Any]
_log = logging.getLogger(__name__)
BOOT_ID = "proc/sys/kernel/random/boot_id"
_POLL_S = 0.05
_RETRY_S = 1.0
_FALLBACK_BYTES = 2048
_MAX_BACKOFF_S = 300.0


@dataclass(frozen=True)
class NodeHome:
    """What the pods of one simulated node share."""

    name: str
    root: Path
    pods: Path
    logs: Path
    address: str
    env: Mapping[str, str]
    entrypoints: Mapping[str, Sequence[str]]
    # A kubelet restarts a container at once the first time, then waits this long, doubling.
    restart_backoff_s: float = 10.0


@dataclass
class _Slot:
    """One container of the pod: what was asked, what is known, and its process while it has one."""

    spec: Object
    state: ContainerState
    popen: subprocess.Popen[bytes] | None = None
    not_before_s: float = 0.0
    log: Path = field(default_factory=Path)

    @property
    def sidecar(self) -> bool:
        return self.state.sidecar


class _StopPodError(Exception):
    """The pod was deleted, or the stand-in ends, in the middle of something."""


class PodWorker:
    """One thread per pod; it forks the pod's processes, so they end with it."""

    def __init__(self, rest: KubeApi, pod: Object, home: NodeHome, pod_address: str) -> None:
        metadata = pod["metadata"]
        self.uid: str = metadata["uid"]
        self.node = home.name
        self._rest = rest
        self._pod = pod
        self._home = home
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        address = home.address if pod["spec"].get("hostNetwork") else pod_address
        self._addresses = Addresses(address, home.address)
        self._dir = home.pods / self.uid
        self._cgroup = PodCgroup(home.root, pod)
        self._started_at = timestamp()
        self._initialised = False
        self._conditions: list[Object] = []
        self._report_again_s = math.inf
        self._policy = pod["spec"].get("restartPolicy", "Always")
        self._inits = [self._slot(spec) for spec in pod["spec"].get("initContainers") or []]
        self._mains = [self._slot(spec) for spec in pod["spec"]["containers"]]
        self._wake = threading.Event()
        self._deleting = bool(metadata.get("deletionTimestamp"))
        self._vanished = False
        self._stopping = False
        self._volumes: dict[str, Path] = {}
        self._thread = threading.Thread(target=self._run, name=f"pod-{metadata['name']}", daemon=True)

    # What others may call, from any thread.

    def start(self) -> None:
        self._thread.start()

    def observe(self, pod: Object) -> None:
        """The pod as the API server has it now."""
        self._pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._deleting = True
            self._wake.set()

    def vanish(self) -> None:
        """The pod's object is gone: end its processes at once."""
        self._vanished = True
        self._wake.set()

    def kill_containers(self) -> None:
        """What a reboot of the node does: every process dies; the restart policy decides what follows."""
        for slot in [*self._inits, *self._mains]:
            if slot.popen is not None:
                _signal(slot.popen, signal.SIGKILL)

    def stop(self) -> None:
        """The stand-in ends: end the processes without telling the API server."""
        self._stopping = True
        self._wake.set()

    def join(self) -> None:
        self._thread.join()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    # The pod's own thread.

    def _slot(self, spec: Object) -> _Slot:
        metadata = self._pod["metadata"]
        sidecar = spec.get("restartPolicy") == "Always"
        log = self._home.logs / f"pod.{metadata['namespace']}.{metadata['name']}.{spec['name']}.log"
        return _Slot(spec, ContainerState(spec["name"], spec.get("image", ""), sidecar), log=log)

    def _run(self) -> None:
        init_failed = False
        try:
            self._dir.mkdir(parents=True, exist_ok=True)
            self._cgroup.create()
            self._prepare_volumes()
            init_failed = not self._run_inits()
            if not init_failed:
                self._run_mains()
        except _StopPodError:
            pass
        except Exception:
            _log.exception("pod %s", self._path)
        finally:
            self._end(init_failed)

    def _pause(self, seconds: float = _POLL_S) -> None:
        self._wake.wait(seconds)
        if self._deleting or self._vanished or self._stopping:
            raise _StopPodError
        if time.monotonic() >= self._report_again_s:
            self._report()

    def _prepare_volumes(self) -> None:
        home = standin_volumes.VolumeHome(self._rest, self._pod, self._addresses, self._home.root, self._dir)
        while True:
            try:
                self._volumes = home.prepare()
                return
            except CannotStartError as error:
                for slot in [*self._inits, *self._mains]:
                    slot.state.wait_for("ContainerCreating", str(error))
                self._report()
                self._pause(_RETRY_S)

    def _run_inits(self) -> bool:
        """Whether all init containers did their work."""
        for slot in self._inits:
            while True:
                self._launch(slot)
                self._report()
                if slot.sidecar:
                    break
                while self._collect(slot) is None:
                    self._pause()
                if slot.state.succeeded:
                    break
                if self._policy == "Never":
                    return False
                self._schedule_restart(slot)
                self._report()
                while time.monotonic() < slot.not_before_s:
                    self._pause()
        self._initialised = True
        return True

    def _run_mains(self) -> None:
        for slot in self._mains:
            slot.state.wait_for("ContainerCreating")
        waiting = list(self._mains)
        while True:
            changed = self._launch_due(waiting)
            for slot in [*self._mains, *(slot for slot in self._inits if slot.sidecar)]:
                if slot.popen is not None and self._collect(slot) is not None:
                    changed = True
                    if slot.sidecar or self._restarts(slot):
                        self._schedule_restart(slot)
                        waiting.append(slot)
            if not any(slot.popen or slot in waiting for slot in self._mains):
                return
            if changed:
                self._report()
            self._pause()

    def _launch_due(self, waiting: list[_Slot]) -> bool:
        ready = [slot for slot in waiting if time.monotonic() >= slot.not_before_s]
        for slot in ready:
            waiting.remove(slot)
            self._launch(slot)
        return bool(ready)

    def _restarts(self, slot: _Slot) -> bool:
        return self._policy == "Always" or (self._policy == "OnFailure" and not slot.state.succeeded)

    def _schedule_restart(self, slot: _Slot) -> None:
        base = self._home.restart_backoff_s
        delay_s = 0.0 if slot.state.restarts == 0 else min(base * 2 ** (slot.state.restarts - 1), _MAX_BACKOFF_S)
        slot.state.restarts += 1
        slot.not_before_s = time.monotonic() + delay_s
        if delay_s:
            slot.state.wait_for(
                "CrashLoopBackOff", f"back-off {delay_s:g}s restarting failed container={slot.state.name}"
            )

    def _launch(self, slot: _Slot) -> None:
        """Start the container, however often it takes until its specification can be met."""
        while True:
            try:
                self._start_process(slot)
                return
            except CannotStartError as error:
                slot.state.wait_for(error.reason, str(error))
                self._report()
                self._pause(_RETRY_S)

    def _start_process(self, slot: _Slot) -> None:
        namespace = self._pod["metadata"]["namespace"]
        sources = Sources(
            lambda name: standin_volumes.config_map(self._rest, namespace, name),
            lambda name: standin_volumes.secret(self._rest, namespace, name),
            self._home.entrypoints,
        )
        variables = standin_spec.environment(self._pod, slot.spec, self._addresses, sources)
        argv = standin_spec.arguments(slot.spec, variables, self._home.entrypoints)
        folder = self._dir / slot.state.name
        folder.mkdir(exist_ok=True)
        message = folder / "termination-log"
        message.write_text("")
        mounts = standin_volumes.mounts(slot.spec, self._volumes)
        mounts[slot.spec.get("terminationMessagePath") or TERMINATION_PATH] = str(message)
        env = self._base_env(folder, message) | {
            key: standin_spec.rewrite_paths(value, mounts) for key, value in variables.items()
        }
        argv = [standin_spec.rewrite_paths(part, mounts) for part in argv]
        cwd = standin_spec.rewrite_paths(slot.spec.get("workingDir") or str(folder), mounts)
        self._fork(slot, argv, env, cwd)

    def _base_env(self, folder: Path, message: Path) -> dict[str, str]:
        server = urlsplit(self._rest.server)
        env = dict(self._home.env) | {
            "HOME": str(folder),
            "HOSTNAME": self._pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": server.hostname or "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(server.port or 443),
            "TERMINATION_MESSAGE_PATH": str(message),
            # A local process would read the real machine's boot id where a container reads its node's.
            "POWERTRAIN_BOOT_ID": (self._home.root / BOOT_ID).read_text().strip(),
        }
        kubeconfig = self._dir / standin_volumes.TOKEN_KUBECONFIG
        return env | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig.exists() else {})

    def _fork(self, slot: _Slot, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        slot.state.start(uuid.uuid4().hex)
        try:
            slot.popen = spawn(slot.state.name, argv, slot.log, env=env, cwd=Path(cwd)).popen
        except OSError as error:
            # As a container runtime reports a command that is not there.
            slot.state.end(128, f"exec {argv[0]!r}: {error.strerror}")
            return
        self._cgroup.add(slot.state.container_id, slot.popen.pid)

    def _collect(self, slot: _Slot) -> int | None:
        """The exit code of a container that has ended; None while it runs."""
        if slot.popen is None:
            return slot.state.terminated["exitCode"] if slot.state.terminated else None
        code = slot.popen.poll()
        if code is None:
            return None
        _signal(slot.popen, signal.SIGKILL)
        slot.popen = None
        exit_code = 128 - code if code < 0 else code
        slot.state.end(exit_code, self._last_words(slot, exit_code))
        self._cgroup.drop(slot.state.container_id)
        return exit_code

    def _last_words(self, slot: _Slot, exit_code: int) -> str:
        with contextlib.suppress(OSError):
            text: bytes = (self._dir / slot.state.name / "termination-log").read_bytes()[:TERMINATION_BYTES]
            if text:
                return str(text, errors="replace")
            if exit_code and slot.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
                return str(slot.log.read_bytes()[-_FALLBACK_BYTES:], errors="replace")
        return ""

    def _report(self, over: bool = False, init_failed: bool = False) -> bool:
        """Tell the API server; where it can't listen the pod goes on, and it is told a moment later."""
        inits = [slot.state for slot in self._inits]
        mains = [slot.state for slot in self._mains]
        now = phase(self._initialised, init_failed, mains, over)
        addresses = self._addresses
        status = pod_status(inits, mains, now, self._initialised, addresses.pod, addresses.host, self._started_at)
        self._conditions = keep_transitions(self._conditions, status["conditions"])
        status["conditions"] = self._conditions
        try:
            with contextlib.suppress(NotFoundError):
                self._rest.strategic_patch(f"{self._path}/status", {"metadata": {"uid": self.uid}, "status": status})
        except ApiError as error:
            _log.warning("status of pod %s: %s", self._path, error)
            self._report_again_s = time.monotonic() + _RETRY_S
            return False
        self._report_again_s = math.inf
        return True

    # The end of the pod.

    def _end(self, init_failed: bool) -> None:
        grace_s = 0.0 if self._vanished or self._stopping else self._grace_s()
        self._terminate([slot for slot in self._mains if slot.popen], grace_s)
        self._terminate([slot for slot in self._inits if slot.popen], grace_s)
        self._cgroup.remove()
        try:
            if not (self._stopping or self._vanished):
                self._insist(lambda: self._report(over=True, init_failed=init_failed))
                self._await_deletion()
        except Exception:
            _log.exception("pod %s", self._path)
        finally:
            shutil.rmtree(self._dir, ignore_errors=True)

    def _grace_s(self) -> float:
        metadata = self._pod["metadata"]
        seconds = metadata.get("deletionGracePeriodSeconds")
        return float(self._pod["spec"].get("terminationGracePeriodSeconds", 30) if seconds is None else seconds)

    def _terminate(self, slots: Sequence[_Slot], grace_s: float) -> None:
        running = [slot for slot in slots if self._collect(slot) is None and slot.popen]
        deadline_s = time.monotonic() + grace_s
        for slot in running:
            if slot.popen is not None and grace_s > 0:
                _signal(slot.popen, signal.SIGTERM)
        while running and time.monotonic() < deadline_s and not (self._vanished or self._stopping):
            time.sleep(_POLL_S / 2)
            running = [slot for slot in running if self._collect(slot) is None]
        for slot in running:
            if slot.popen is not None:
                _signal(slot.popen, signal.SIGKILL)
                slot.popen.wait()
                self._collect(slot)

    def _await_deletion(self) -> None:
        while not (self._deleting or self._vanished or self._stopping):
            self._wake.wait()
        self._insist(self._forget)

    def _forget(self) -> bool:
        """The kubelet's last act: the object may go."""
        try:
            with contextlib.suppress(NotFoundError, ConflictError):
                self._rest.delete(self._path, uid=self.uid, grace_period_s=0)
        except ApiError as error:
            _log.warning("end of pod %s: %s", self._path, error)
            return False
        return True

    def _insist(self, tell: Callable[[], bool]) -> None:
        """Tell it until it was heard, the object is gone or the stand-in ends."""
        while True:
            # Whoever sets a flag sets the event after it, so none is missed.
            self._wake.clear()
            if self._vanished or self._stopping or tell():
                return
            self._wake.wait(_RETRY_S)


def _signal(popen: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, number)
