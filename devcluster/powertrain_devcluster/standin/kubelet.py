"""A stand-in for kubelets: Nodes are objects with a heartbeat, and their pods run as local processes.

It is made for tests and demos of things that live in pods but do not need containers. It honours commands, arguments,
environment, volumes (host paths lie under a root folder per node), restart policies, termination messages and graceful
deletion, and keeps control group folders while a pod lives. It does not isolate, does not run probes or hooks and does
not serve logs or exec.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import platform
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from powertrain_devcluster.builds.progress import Progress, Silent
from powertrain_devcluster.connection import connect, follow
from powertrain_devcluster.standin import cgroup as standin_cgroup
from powertrain_devcluster.standin.pod import BOOT_ID, NodeHome, PodWorker
from powertrain_devcluster.standin.status import micro_timestamp, timestamp
from powertrain_kube import ConflictError, GoneError, KubeApi, NotFoundError

Object = dict[str, Any]
_log = logging.getLogger(__name__)
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_S = 40
_HEARTBEAT_S = 10.0
_RECONNECT_S = 0.5
# An Orin AGX, so that pods written for one are scheduled.
_CAPACITY = {"cpu": "12", "memory": "32Gi", "pods": "110", "ephemeral-storage": "64Gi"}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# What a local process may see of the environment of whoever started the stand-in.
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "OMP_NUM_THREADS", "POWERTRAIN_CLUSTER_ID")


def process_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that every container gets; programs of this Python's environment come first."""
    inherited = {key: env[key] for key in _INHERITED if key in env}
    return inherited | {"PATH": f"{Path(sys.executable).parent}:{inherited.get('PATH', os.defpath)}"}


class StandInKubelet:
    """A context manager for any number of simulated nodes; inside it they are Ready and run what is bound to them."""

    def __init__(
        self,
        kubeconfig: Path,
        node_names: Sequence[str],
        root: Path,
        *,
        logs: Path | None = None,
        labels: Mapping[str, str] | None = None,
        node_labels: Mapping[str, Mapping[str, str]] | None = None,
        capacity: Mapping[str, str] | None = None,
        entrypoints: Mapping[str, Sequence[str]] | None = None,
        env: Mapping[str, str] | None = None,
        extra_env: Mapping[str, str] | None = None,
        restart_backoff_s: float = 10.0,
        remove_nodes: bool = True,
        progress: Progress | None = None,
    ) -> None:
        self.node_names = list(node_names)
        self.root = root
        self._kubeconfig = kubeconfig
        self._logs = logs or root / "logs"
        self._labels = dict(labels or {})
        self._node_labels = node_labels or {}
        self._capacity = {**_CAPACITY, **(capacity or {})}
        self._entrypoints = dict(entrypoints or {})
        self._env = {**process_environment(os.environ if env is None else env), **(extra_env or {})}
        self._backoff_s = restart_backoff_s
        self._remove_nodes = remove_nodes
        self._progress = progress or Silent()
        self._homes: dict[str, NodeHome] = {}
        self._workers: dict[str, PodWorker] = {}
        self._silent_nodes: set[str] = set()
        self._serial = itertools.count(1)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._rest: KubeApi

    def __enter__(self) -> StandInKubelet:
        self._rest = connect(self._kubeconfig)
        self._logs.mkdir(parents=True, exist_ok=True)
        for index, name in enumerate(self.node_names):
            self._progress.waiting(f"simulated nodes ({index + 1} of {len(self.node_names)})")
            self._add_node(index, name)
        for target in (self._watch_pods, self._beat):
            thread = threading.Thread(target=target, name=target.__name__.strip("_"), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            # A watch may be opened after the first interruption.
            while thread.is_alive():
                self._rest.interrupt()
                thread.join(0.1)
        for worker in self._workers.values():
            worker.stop()
        for worker in self._workers.values():
            worker.join()
        if self._remove_nodes:
            with contextlib.suppress(Exception):
                self._delete_nodes()
        self._rest.close()

    def node_root(self, name: str) -> Path:
        """The folder that the node's host paths lie under."""
        return self._homes[name].root

    def reboot(self, name: str) -> None:
        """Kill every process of the node and give it a new boot id, as a power cycle would."""
        # First the boot id: a container that comes back at once must not read the old one.
        info = self._node_info(self._homes[name])
        for worker in list(self._workers.values()):
            if worker.node == name:
                worker.kill_containers()
        self._rest.strategic_patch(f"/api/v1/nodes/{name}/status", {"status": {"nodeInfo": info}})

    def set_heartbeat(self, name: str, beats: bool) -> None:
        """Let a node fall silent, so that the cluster calls it NotReady, or come back."""
        (self._silent_nodes.discard if beats else self._silent_nodes.add)(name)
        if beats:
            self._rest.strategic_patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": self._conditions()}})

    # Nodes

    def _add_node(self, index: int, name: str) -> None:
        address = f"127.77.{index // 250}.{index % 250 + 1}"
        home = NodeHome(
            name=name,
            root=self.root / name / "host",
            pods=self.root / name / "pods",
            logs=self._logs,
            address=address,
            env=self._env,
            entrypoints=self._entrypoints,
            restart_backoff_s=self._backoff_s,
        )
        home.pods.mkdir(parents=True, exist_ok=True)
        standin_cgroup.prepare(home.root)
        self._homes[name] = home
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **self._labels}
        labels |= self._node_labels.get(name, {})
        labels.setdefault("kubernetes.io/arch", _ARCHITECTURES.get(platform.machine(), platform.machine()))
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        with contextlib.suppress(ConflictError):
            self._rest.create("/api/v1/nodes", node)
        self._renew(name)
        status = {
            "capacity": self._capacity,
            "allocatable": self._capacity,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "nodeInfo": self._node_info(home),
            "conditions": self._conditions(),
        }
        self._rest.strategic_patch(f"/api/v1/nodes/{name}/status", {"status": status})

    @staticmethod
    def _node_info(home: NodeHome) -> Object:
        boot_id = str(uuid.uuid4())
        file = home.root / BOOT_ID
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(boot_id + "\n")
        return {
            "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, home.name).hex,
            "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_DNS, home.name)),
            "bootID": boot_id,
            "kernelVersion": platform.release(),
            "osImage": "PowerTrain stand-in",
            "containerRuntimeVersion": "standin://1",
            "kubeletVersion": "v1.36.3",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        }

    @staticmethod
    def _conditions() -> list[Object]:
        now = timestamp()
        pressures = [
            (kind, "False", "KubeletHasSufficient") for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
        ]
        return [
            {"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now}
            for kind, status, reason in [*pressures, ("Ready", "True", "KubeletReady")]
        ]

    def _beat(self) -> None:
        while not self._stop.wait(_HEARTBEAT_S):
            for name in self.node_names:
                if name not in self._silent_nodes:
                    try:
                        self._renew(name)
                    except Exception as error:
                        _log.warning("heartbeat of %s: %s", name, error)

    def _renew(self, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_S, "renewTime": micro_timestamp()}
        try:
            self._rest.strategic_patch(f"{_LEASES}/{name}", {"spec": spec})
        except NotFoundError:
            metadata = {"name": name, "namespace": "kube-node-lease"}
            self._rest.create(
                _LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            )

    def _delete_nodes(self) -> None:
        for pod in self._rest.get("/api/v1/pods")["items"]:
            if pod["spec"].get("nodeName") in self._homes:
                metadata = pod["metadata"]
                with contextlib.suppress(NotFoundError):
                    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                    self._rest.delete(path, grace_period_s=0)
        for name in self.node_names:
            for path in (f"/api/v1/nodes/{name}", f"{_LEASES}/{name}"):
                with contextlib.suppress(NotFoundError):
                    self._rest.delete(path)

    # Pods

    def _watch_pods(self) -> None:
        version = ""
        while not self._stop.is_set():
            try:
                version = self._follow(version) if version else self._relist()
            except GoneError:
                version = ""
            except Exception as error:
                _log.warning("watch of pods: %s", error)
                version = ""
                self._stop.wait(_RECONNECT_S)

    def _relist(self) -> str:
        pods = self._rest.get("/api/v1/pods")
        present = {pod["metadata"]["uid"] for pod in pods["items"]}
        for uid in [uid for uid in self._workers if uid not in present]:
            self._workers.pop(uid).vanish()
        for pod in pods["items"]:
            self._observe(pod)
        return str(pods["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> str:
        for event in follow(self._rest, "/api/v1/pods", version):
            pod = event["object"]
            version = pod["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                if worker := self._workers.pop(pod["metadata"]["uid"], None):
                    worker.vanish()
            elif event["type"] != "BOOKMARK":
                self._observe(pod)
            if self._stop.is_set():
                break
        return version

    def _observe(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        home = self._homes.get(pod["spec"].get("nodeName") or "")
        if home is None:
            return
        if uid in self._workers:
            self._workers[uid].observe(pod)
        elif (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            serial = next(self._serial)
            worker = PodWorker(self._rest, pod, home, f"127.78.{serial // 250 % 250}.{serial % 250 + 1}")
            self._workers[uid] = worker
            worker.start()
