"""The status that a kubelet reports for a pod, as a pure function of its containers' states."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
TERMINATION_BYTES = 4096


def timestamp() -> str:
    """Now, as API objects write it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp() -> str:
    """Now, as Leases write it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass
class ContainerState:
    """What is known about one container. `sidecar` is an init container that keeps running."""

    name: str
    image: str
    sidecar: bool = False
    waiting: Object = field(default_factory=lambda: {"reason": "PodInitializing"})
    running: Object | None = None
    terminated: Object | None = None
    last_terminated: Object | None = None
    restarts: int = 0
    container_id: str = ""

    @property
    def succeeded(self) -> bool:
        return self.terminated is not None and self.terminated["exitCode"] == 0

    def wait_for(self, reason: str, message: str = "") -> None:
        self.running = None
        self.last_terminated = self.terminated or self.last_terminated
        self.terminated = None
        self.waiting = {"reason": reason, **({"message": message} if message else {})}

    def start(self, container_id: str) -> None:
        self.container_id = container_id
        self.last_terminated = self.terminated or self.last_terminated
        self.terminated = None
        self.running = {"startedAt": timestamp()}

    def end(self, exit_code: int, message: str) -> None:
        began = (self.running or {}).get("startedAt") or timestamp()
        self.running = None
        self.terminated = {
            "exitCode": exit_code,
            "reason": "Completed" if exit_code == 0 else "Error",
            "startedAt": began,
            "finishedAt": timestamp(),
            "containerID": f"standin://{self.container_id}",
            **({"message": message} if message else {}),
        }

    def report(self) -> Object:
        if self.running is not None:
            state = {"running": self.running}
        elif self.terminated is not None:
            state = {"terminated": self.terminated}
        else:
            state = {"waiting": self.waiting}
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "ready": self.running is not None or (self.succeeded and not self.sidecar),
            "started": self.running is not None,
            "restartCount": self.restarts,
            "state": state,
            "lastState": {"terminated": self.last_terminated} if self.last_terminated else {},
            **({"containerID": f"standin://{self.container_id}"} if self.container_id else {}),
        }


def phase(initialised: bool, init_failed: bool, mains: Sequence[ContainerState], over: bool) -> str:
    """Pending until the init containers are done, then Running until no container will run again."""
    if init_failed:
        return "Failed"
    if over and initialised and all(state.terminated is not None for state in mains):
        return "Succeeded" if all(state.succeeded for state in mains) else "Failed"
    if over:
        return "Failed"
    return "Running" if initialised and any(_has_started(state) for state in mains) else "Pending"


def _has_started(state: ContainerState) -> bool:
    return bool(state.running or state.terminated or state.last_terminated)


def _condition(kind: str, holds: bool, reason: str) -> Object:
    now = timestamp()
    # An absent reason must be written as empty, else a merge keeps the old one.
    return {"type": kind, "status": str(holds), "reason": "" if holds else reason, "lastTransitionTime": now}


def keep_transitions(before: Sequence[Object], now: Sequence[Object]) -> list[Object]:
    """The conditions of now; one whose status did not change keeps the time of its last change."""
    times = {(each["type"], each["status"]): each["lastTransitionTime"] for each in before}
    return [
        {**each, "lastTransitionTime": times.get((each["type"], each["status"]), each["lastTransitionTime"])}
        for each in now
    ]


def pod_status(
    inits: Sequence[ContainerState], mains: Sequence[ContainerState], phase_now: str, initialised: bool, pod_ip: str,
    host_ip: str, started_at: str,
) -> Object:  # fmt: skip
    """The status part of a patch; conditions merge by type, so those of others stay."""
    ready = phase_now == "Running" and all(state.running is not None for state in mains)
    reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase_now, "ContainersNotReady")
    main_reports = [state.report() for state in mains]
    for report in main_reports:
        report["ready"] = "running" in report["state"]
    return {
        "phase": phase_now,
        "startTime": started_at,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "initContainerStatuses": [state.report() for state in inits],
        "containerStatuses": main_reports,
        "conditions": [
            _condition("PodReadyToStartContainers", phase_now in ("Pending", "Running"), reason),
            _condition("Initialized", initialised, "ContainersNotInitialized"),
            _condition("ContainersReady", ready, reason),
            _condition("Ready", ready, reason),
        ],
    }
