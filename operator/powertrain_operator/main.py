"""The command `powertrain-operator`: options, signals, and a line and an exit code for each thing that can be wrong."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from powertrain import __version__
from powertrain_kube import ApiError, AwayError, KubeApi, Log, credentials
from powertrain_operator.plan import FIELD_MANAGER, AffectedKeys, Reconcile
from powertrain_operator.reconcile.failure import failure_actions
from powertrain_operator.reconcilers import PAUSES_S, RECONCILERS, affected_keys, rank_of
from powertrain_operator.runtime.lease import LeaseLostError
from powertrain_operator.runtime.log import capture
from powertrain_operator.runtime.one_release import AnotherReleaseError
from powertrain_operator.runtime.process import MissingResourcesError, MissingRightsError, OperatorProcess
from powertrain_operator.settings import NAMESPACE, PORT, Settings
from powertrain_operator.training_pods import PodSettings

NO_CLUSTER, NO_RESOURCES, NO_RIGHTS, LEASE_LOST, ANOTHER_RELEASE = 3, 4, 5, 6, 7
EXIT_CODES = """\
exit codes: 0 stopped on request, 1 unexpected error, 2 invalid options, 3 no cluster, 4 the CRDs are not installed,
5 missing permissions, 6 another operator may have taken over, 7 another release serves this cluster"""


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    default = Settings()
    options = argparse.ArgumentParser(
        prog="powertrain-operator",
        description="Places TrainingJobs on Jetson boards and tells the agents their limits.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "--kubeconfig", type=Path, help="kubeconfig of the API server (default: the pod's service account)"
    )
    options.add_argument(
        "--namespace",
        default=os.environ.get("POD_NAMESPACE", NAMESPACE),
        help=f"the release's namespace, which holds the Leases ($POD_NAMESPACE, else {NAMESPACE})",
    )
    options.add_argument(
        "--metrics-port", type=int, default=PORT, help=f"serve /metrics and /healthz there ({PORT}; 0: a free one)"
    )
    options.add_argument(
        "--gate-image", default=default.pods.gate_image, help=f"image of the gate ({default.pods.gate_image})"
    )
    options.add_argument(
        "--gate-pull-policy",
        choices=["Always", "IfNotPresent", "Never"],
        default=default.pods.gate_pull_policy,
        help=f"when to pull it ({default.pods.gate_pull_policy})",
    )
    options.add_argument(
        "--sessions-path",
        default=default.pods.sessions_path,
        help=f"the agents' folder of sessions on their hosts ({default.pods.sessions_path})",
    )
    options.add_argument(
        "--resync-seconds",
        type=float,
        default=default.resync_s,
        help=f"seconds between two full lists of all objects ({default.resync_s:g})",
    )
    options.add_argument(
        "--cluster-lease",
        default=default.cluster_lease_name,
        help=f"Lease in kube-system that keeps a second release out ({default.cluster_lease_name})",
    )
    options.add_argument(
        "--profiles-kept",
        type=int,
        default=default.profiles_kept,
        help=f"PowerProfiles of each workload, batch size and board that are kept ({default.profiles_kept})",
    )
    options.add_argument(
        "--reshare-seconds",
        type=float,
        default=default.reshare_s,
        help=f"least seconds between two distributions of a PowerBudget's watts ({default.reshare_s:g})",
    )
    options.add_argument("--version", action="version", version=f"powertrain-operator {__version__}")
    return options


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings that the options stand for; ends the process where they make no sense."""
    if options.resync_seconds < 1:
        parser().error(f"--resync-seconds must be at least 1, not {options.resync_seconds:g}")
    if options.profiles_kept < 1:
        parser().error(f"--profiles-kept must be at least 1, not {options.profiles_kept}")
    if options.reshare_seconds <= 0:
        parser().error(f"--reshare-seconds must be above 0, not {options.reshare_seconds:g}")
    return Settings(
        reshare_s=options.reshare_seconds,
        namespace=options.namespace,
        metrics_port=options.metrics_port,
        pods=PodSettings(options.gate_image, options.gate_pull_policy, options.sessions_path),
        resync_s=options.resync_seconds,
        cluster_lease_name=options.cluster_lease,
        profiles_kept=options.profiles_kept,
    )


def serve(
    kubeconfig: Path | None, settings: Settings, log: Log, reconcilers: Mapping[str, Reconcile], affects: AffectedKeys
) -> int:
    """Run one operator; returns the exit code."""
    where = kubeconfig or "the pod's service account"

    def load() -> object:
        return credentials(kubeconfig)

    try:
        server = KubeApi(load, FIELD_MANAGER, settings.call_s).server
    except Exception as error:  # the library raises many kinds, also for missing files and bad base64
        hint = "" if kubeconfig else " (outside a cluster, name one with --kubeconfig)"
        return _fail(NO_CLUSTER, f"the credentials for the API server can't be read from {where}: {error}{hint}")
    try:
        operator = OperatorProcess(
            settings,
            load,
            reconcilers,
            affects,
            log,
            rank_of=rank_of,
            pauses_s=PAUSES_S,
            failure_actions=failure_actions,
        )
    except OSError as error:
        return _fail(
            2, f"port {settings.metrics_port} can't be served: {error.strerror}; choose another --metrics-port"
        )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: operator.stop())
    try:
        operator.check_access()
        operator.run()
    except AwayError as error:
        return _fail(NO_CLUSTER, f"no answer from {server}: {error}")
    except MissingResourcesError as error:
        return _fail(NO_RESOURCES, str(error))
    except MissingRightsError as error:
        return _fail(NO_RIGHTS, str(error))
    except LeaseLostError as error:
        return _fail(LEASE_LOST, str(error))
    except AnotherReleaseError as error:
        return _fail(ANOTHER_RELEASE, str(error))
    except ApiError as error:
        return _fail(1, str(error))
    return 0


def run(
    arguments: list[str] | None = None,
    reconcilers: Mapping[str, Reconcile] = RECONCILERS,
    affects: AffectedKeys = affected_keys,
) -> None:
    """Run the operator, the entry point of `powertrain-operator`."""
    options = parser().parse_args(arguments)
    log = Log()
    capture(log)
    sys.exit(serve(options.kubeconfig, settings_of(options), log, reconcilers, affects))


def _fail(code: int, words: str) -> int:
    sys.stderr.write(f"error: {words}\n")
    return code


if __name__ == "__main__":
    run()
