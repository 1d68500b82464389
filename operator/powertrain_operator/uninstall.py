"""The command `powertrain-uninstall`: gives every board back before a release is removed, and cleans up after it.

The chart's hooks run it. `release` asks and waits, while operator and agents still do the work; `clean` removes what
they wrote, once they are gone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from powertrain.api.resources import POWER_NODES, TRAINING_JOBS
from powertrain.api.v1alpha1 import JobPhase
from powertrain_kube import ApiError, KubeApi, NotFoundError, Object, credentials
from powertrain_operator import names
from powertrain_operator.resources import AGENT_LABELS, LEASE, NODE
from powertrain_operator.settings import NAMESPACE, Settings

MANAGER = "powertrain-uninstall"
REFUSED, NOT_RESTORED, NO_CLUSTER = 7, 8, 3
EXIT_CODES = """\
exit codes: 0 done, 2 bad options, 3 the API server refused or did not answer, 7 jobs hold boards (not with --force),
8 boards were not restored in time (not with --force)"""
PAGE = 50
POLL_S = 1.0
ENDED = (JobPhase.SUCCEEDED, JobPhase.FAILED)
ASK = {"metadata": {"annotations": {names.RELEASE_REQUESTED: "uninstall"}}}
Say = Callable[[str], None]


@dataclass(frozen=True)
class Remainder:
    """What stands between a release and its end."""

    jobs: tuple[str, ...]  # namespace/name of TrainingJobs that hold a board
    boards: tuple[str, ...]  # nodes that are not as they were found
    willing: tuple[str, ...] = ()  # namespace/name of those that would take a board which another one lets go

    def __bool__(self) -> bool:
        return bool(self.jobs or self.boards)


def holds(job: Object) -> bool:
    """Say whether a TrainingJob has a board now."""
    return any(node.get("holds") for node in (job.get("status") or {}).get("nodes") or ())


def is_willing(job: Object) -> bool:
    """Say whether a TrainingJob takes a board when it can: it has not ended and is not suspended."""
    ended = (job.get("status") or {}).get("phase") in ENDED
    return not ended and not (job.get("spec") or {}).get("suspend")


def is_restored(power_node: Object) -> bool:
    """Say whether nothing of a session is left on a board: the operator forgets one when its agent has restored it."""
    session = ((power_node.get("spec") or {}).get("session") or {}).get("uid")
    reported = (power_node.get("status") or {}).get("session") or {}
    return not session or bool(reported.get("uid") == session and reported.get("restored"))


def remainder(jobs: Iterable[Object], power_nodes: Iterable[Object]) -> Remainder:
    """Return what is still to be done."""
    holding, willing = [], []
    for job in jobs:
        name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
        holding += [name] if holds(job) else []
        willing += [name] if is_willing(job) else []
    boards = (node["metadata"]["name"] for node in power_nodes if not is_restored(node))
    return Remainder(tuple(sorted(holding)), tuple(sorted(boards)), tuple(sorted(willing)))


class Uninstall:
    """Both steps, on a cluster. `clock` and `sleep` are parameters for tests."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api, self._namespace, self._say = api, namespace, say
        self._clock, self._sleep = clock, sleep

    def release(self, force: bool, timeout_s: float) -> int:
        """Ask for every board and wait until it is as it was found; returns the exit code."""
        end_s = self._clock() + timeout_s
        remainder, requested = self._remainder(), set[str]()
        while True:
            if remainder.jobs and not force:
                return self._refuse(remainder.jobs)
            # Also those that only wait: what the first lets go the queue gives to the next.
            for job in remainder.willing if force else ():
                self._patch(_job_path(job), {"spec": {"suspend": True}})
            for board in set(remainder.boards) - requested:
                self._patch(POWER_NODES.path(board), ASK)
            requested.update(remainder.boards)
            if not remainder or self._clock() >= end_s:
                break
            self._sleep(POLL_S)
            remainder = self._remainder()
        if not remainder:
            self._say("every board has its original settings again")
            return 0
        self._say(f"not restored after {timeout_s:g} s: {', '.join(remainder.boards) or 'none'}")
        if remainder.jobs:
            self._say(f"still held by {', '.join(remainder.jobs)}")
        self._say("on such a board run restore.sh in the agent's state directory as root, or reboot it")
        return 0 if force else NOT_RESTORED

    def _refuse(self, jobs: tuple[str, ...]) -> int:
        self._say(f"refused: these TrainingJobs hold boards: {', '.join(jobs)}")
        self._say("suspend or delete them and uninstall again; or take the removal back with `helm rollback`, and")
        self._say("upgrade the release with uninstall.force=true, which suspends all jobs when it is removed")
        return REFUSED

    def clean(self) -> int:
        """Remove what operator and agents wrote: finalizers, PowerNodes, annotations of Nodes, Leases."""
        for job in self._all(TRAINING_JOBS.path()):
            finalizers = [name for name in job["metadata"].get("finalizers") or () if name != names.FINALIZER]
            if finalizers != (job["metadata"].get("finalizers") or []):
                path = TRAINING_JOBS.path(job["metadata"]["name"], job["metadata"]["namespace"])
                self._api.merge_patch(path, {"metadata": {"finalizers": finalizers or None}})
        for power_node in self._all(POWER_NODES.path()):
            self._delete(POWER_NODES.path(power_node["metadata"]["name"]))
        for node in self._all(NODE.path()):
            ours = set(names.ON_NODES).intersection(node["metadata"].get("annotations") or ())
            if ours:
                body = {"metadata": {"annotations": dict.fromkeys(ours)}}
                self._api.merge_patch(NODE.path(name=node["metadata"]["name"]), body)
        for lease in self._all(LEASE.path(self._namespace)):
            if _is_ours(lease):
                self._delete(LEASE.path(self._namespace, lease["metadata"]["name"]))
        self._say("nothing of PowerTrain is left on Nodes and TrainingJobs")
        return 0

    def _remainder(self) -> Remainder:
        return remainder(self._all(TRAINING_JOBS.path()), self._all(POWER_NODES.path()))

    def _all(self, path: str) -> Iterator[Object]:
        """List in pages; a kind that is not served any more has no objects."""
        query = {"limit": str(PAGE)}
        while True:
            try:
                page = self._api.list(path, query)
            except NotFoundError:
                return
            yield from page.get("items") or ()
            token = page["metadata"].get("continue")
            if not token:
                return
            query["continue"] = token

    def _patch(self, path: str, body: Object) -> None:
        """Change what may be gone meanwhile."""
        with contextlib.suppress(NotFoundError):
            self._api.merge_patch(path, body)

    def _delete(self, path: str) -> None:
        with contextlib.suppress(NotFoundError):
            self._api.delete(path)


def _is_ours(lease: Object) -> bool:
    labels = lease["metadata"].get("labels") or {}
    return AGENT_LABELS.items() <= labels.items() or lease["metadata"]["name"] == Settings().lease_name


def _job_path(job: str) -> str:
    namespace, _, name = job.partition("/")
    return TRAINING_JOBS.path(name, namespace)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    options = argparse.ArgumentParser(
        prog="powertrain-uninstall",
        description="Restores every board before a release is removed, and cleans up after it.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("step", choices=["release", "clean"], help="before or after operator and agents are removed")
    options.add_argument(
        "--kubeconfig", type=Path, help="kubeconfig of the API server (default: the pod's service account)"
    )
    options.add_argument("--namespace", default=os.environ.get("POD_NAMESPACE", NAMESPACE), help="the release's")
    options.add_argument("--force", action="store_true", help="suspend all jobs first; end with 0 in any case")
    options.add_argument("--timeout-seconds", type=float, default=120.0, help="how long to wait for the boards (120)")
    return options


def run(arguments: list[str] | None = None) -> None:
    """Do one step, the entry point of `powertrain-uninstall`."""
    options = parser().parse_args(arguments)

    def say(words: str) -> None:
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()

    try:
        api = KubeApi(lambda: credentials(options.kubeconfig), MANAGER)
        step = Uninstall(api, options.namespace, say)
        code = step.release(options.force, options.timeout_seconds) if options.step == "release" else step.clean()
    except ApiError as error:
        say(f"error: {error}")
        code = NO_CLUSTER
    sys.exit(code)


if __name__ == "__main__":
    run()
