"""Nodes and pods as kubelets show them: the objects alone, nothing runs."""

from __future__ import annotations

from typing import Any

from powertrain_devcluster.standin.status import ContainerState, micro_timestamp, pod_status, timestamp
from powertrain_operator.training_pods import GATE

Object = dict[str, Any]
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_S = 40
_CAPACITY = {"cpu": "12", "memory": "32Gi", "pods": "110", "ephemeral-storage": "64Gi"}


def node(name: str, device: str) -> Object:
    """Return a new Node."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "powertrain.io/device": device}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def node_status(name: str) -> Object:
    """Return the status of a Node that is ready."""
    now = timestamp()
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "capacity": _CAPACITY,
        "allocatable": _CAPACITY,
        "addresses": [{"type": "Hostname", "address": name}],
        "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
    }


def node_lease(name: str) -> Object:
    """Return a kubelet's heartbeat."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_S, "renewTime": micro_timestamp()}
    metadata = {"name": name, "namespace": "kube-node-lease"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


class PodReplay:
    """One training pod: its gate runs, then its containers, then it is over."""

    def __init__(self, pod: Object) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self.uid, self.node = metadata["uid"], spec["nodeName"]
        self.path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        gate = next(each for each in spec["initContainers"] if each["name"] == GATE)
        self.session = next(v["value"] for v in gate["env"] if v["name"] == "POWERTRAIN_SESSION_UID")
        self._inits = [ContainerState(each["name"], each["image"]) for each in spec["initContainers"]]
        self._mains = [ContainerState(each["name"], each["image"]) for each in spec["containers"]]
        self._began = timestamp()

    def at_the_gate(self) -> Object:
        """Return the status while the gate waits."""
        self._inits[0].start(f"{self.uid}-0")
        return self._status("Pending", False)

    def running(self) -> Object:
        """Return the status once the gate has let it through."""
        for state in self._inits:
            state.end(0, "")
        for state in self._mains:
            state.start(self.uid)
        return self._status("Running", True)

    def succeeded(self) -> Object:
        """Return the status at the end."""
        for state in self._mains:
            state.end(0, "")
        return self._status("Succeeded", True)

    def _status(self, phase: str, initialised: bool) -> Object:
        status = pod_status(self._inits, self._mains, phase, initialised, "127.77.0.1", "127.0.0.1", self._began)
        # What the scheduler said stays: the list is written as a whole.
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self._began}
        return {**status, "conditions": [*status["conditions"], bound]}
