"""The verbs that ask the cluster for something: submit and restore."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from powertrain.api.resources import POWER_NODES, TRAINING_JOBS
from powertrain.api.v1alpha1 import Instrumentation
from powertrain_cli import completion
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.jobs.connection import Connection, KubeconfigOption, NamespaceOption, connected
from powertrain_cli.output import JsonFlag, emit_json, stdout, warn
from powertrain_cli.units import watts
from powertrain_kube import AlreadyExistsError, ForbiddenError, NotFoundError, Object
from powertrain_operator.names import RELEASE_REQUESTED
from powertrain_sdk import diagnose

EVENTS = "/apis/events.k8s.io/v1/events"
ANSWER_S, POLL_S = 15.0, 0.3
NO_KIND = "no Kubernetes object"


def mount(root: typer.Typer) -> None:
    """Add the verbs to the command."""
    root.command("submit")(submit)
    root.command("restore")(restore)


def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A manifest with a TrainingJob.")],
    name: Annotated[str | None, typer.Option("--name", help="Another name than the manifest's.")] = None,
    power: Annotated[
        float | None,
        typer.Option(
            "--power", parser=watts, metavar="WATTS", help="Power budget in watts, instead of the manifest's."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Epochs instead of the manifest's.", min=1)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only let the API server check it.")] = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Start a training: create the TrainingJob of a manifest, with another budget or name if you like.

    [bold]Examples[/bold]

    powertrain submit examples/mobilenet-v3.yaml

    powertrain submit examples/mobilenet-v3.yaml --name at-20-watts --power 20
    """
    body = read_job(file)
    if name is not None:
        body["metadata"] = {**body["metadata"], "name": name}
        body["metadata"].pop("generateName", None)
    if power is not None:
        _set_field(file, body["spec"], "constraints", "powerWatts", power)
    if epochs is not None:
        _set_field(file, body["spec"], "workload", "epochs", epochs)
    with connected(kubeconfig, namespace or body["metadata"].get("namespace")) as cluster:
        created = _create(cluster, body, dry_run)
    _warn_of_uncounted_steps(created)
    metadata = created["metadata"]
    if as_json:
        emit_json({"namespace": metadata["namespace"], "name": metadata["name"], "dry_run": dry_run})
        return
    if dry_run:
        stdout().print(f"{metadata['name']} would be accepted", markup=False)
        return
    option = f" -n {metadata['namespace']}" if metadata["namespace"] != "default" else ""
    stdout().print(f"created {metadata['name']}; see: powertrain status {metadata['name']}{option}", markup=False)


def _set_field(file: Path, spec: Object, part: str, name: str, value: float) -> None:
    """Put a value of the command line into a part of the spec that may be absent or null."""
    section = spec.get(part) or {}
    if not isinstance(section, dict):
        raise CliError(f"{file}: spec.{part} must be a mapping, not {section!r}")
    spec[part] = {**section, name: value}


def _warn_of_uncounted_steps(job: Object) -> None:
    """Say why the steps of a training can't be counted without a change of its code, where its command shows that."""
    workload = job["spec"].get("workload") or {}
    if workload.get("instrumentation", Instrumentation.AUTO) != Instrumentation.AUTO:
        return
    for container in ((workload.get("template") or {}).get("spec") or {}).get("containers") or ():
        reason = diagnose([*(container.get("command") or ()), *(container.get("args") or ())])
        if reason is not None:
            warn(f"no step of container {container['name']} can be counted automatically: {reason}")


def _create(cluster: Connection, body: Object, dry_run: bool) -> Object:
    body["metadata"]["namespace"] = cluster.namespace
    path = TRAINING_JOBS.path(namespace=cluster.namespace)
    try:
        return cluster.api.create(path, body, dry_run=dry_run, strict=True)
    except AlreadyExistsError:
        name = body["metadata"]["name"]
        raise CliError(
            f"there is a TrainingJob {name!r} in namespace {cluster.namespace!r} already: give another --name, or "
            f"kubectl delete trainingjob {name}"
        ) from None
    except NotFoundError as error:
        cluster.list(TRAINING_JOBS, cluster.namespace)  # says so if the kinds are missing
        raise CliError(error.words) from None


def read_job(file: Path) -> Object:
    """Return the one TrainingJob of a manifest."""
    import yaml

    try:
        documents = [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each]
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"can't read {file}: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        raise CliError(f"{file} is not valid YAML: {' '.join(str(error).split())}") from None
    kinds = [str(each.get("kind", NO_KIND)) if isinstance(each, dict) else NO_KIND for each in documents]
    jobs = [each for each, kind in zip(documents, kinds, strict=True) if kind == TRAINING_JOBS.kind]
    if len(jobs) != 1 or len(documents) != 1:
        raise CliError(
            f"{file} holds {', '.join(kinds) or 'nothing'}: submit takes a file with one TrainingJob and nothing else; "
            "for the rest there is kubectl apply"
        )
    job: dict[str, Any] = jobs[0]
    if not isinstance(job.get("metadata"), dict) or not isinstance(job.get("spec"), dict):
        raise CliError(f"{file}: a TrainingJob needs metadata and spec")
    return job


def restore(
    node: Annotated[str, typer.Argument(metavar="NODE", autocompletion=completion.nodes, help="Name of a node.")],
    kubeconfig: KubeconfigOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Restore a board's original settings; refused while a job uses the board.

    [bold]Examples[/bold]

    powertrain restore jetson-1
    """
    with connected(kubeconfig, None) as cluster:
        cluster.get(POWER_NODES, node)
        request_time = cluster.api.now()
        _annotate(cluster, node, request_time.strftime("%Y-%m-%dT%H:%M:%SZ"))
        try:
            restored, words = _answer(cluster, node, request_time)
        finally:
            _annotate(cluster, node, None)
    if as_json:
        emit_json({"node": node, "restored": restored, "message": words})
    else:
        stdout().print(words, markup=False, soft_wrap=True)
    if not restored:
        raise typer.Exit(int(Exit.NO_SOLUTION if restored is False else Exit.ENVIRONMENT))


def _annotate(cluster: Connection, node: str, value: str | None) -> None:
    cluster.api.merge_patch(POWER_NODES.path(node), {"metadata": {"annotations": {RELEASE_REQUESTED: value}}})


def _answer(cluster: Connection, node: str, request_time: datetime) -> tuple[bool | None, str]:
    """Return whether the board is restored (None: nobody answered) and how that is said."""
    end_s = time.monotonic() + ANSWER_S
    while time.monotonic() < end_s:
        power_node = cluster.api.get(POWER_NODES.path(node))
        session = (power_node.get("spec") or {}).get("session")
        reported = (power_node.get("status") or {}).get("session") or {}
        if session is None or (reported.get("uid") == session["uid"] and reported.get("restored")):
            return True, f"original settings of {node} restored; no job uses it"
        refusal = _refusal(cluster, node, request_time)
        if refusal:
            return False, f"refused: {refusal}"
        time.sleep(POLL_S)
    return None, f"no answer for {node} within {ANSWER_S:.0f} s: is the operator running?"


def _refusal(cluster: Connection, node: str, request_time: datetime) -> str:
    """Return the operator's words of refusal, empty if it has not refused since."""
    query = {"fieldSelector": f"reason=RestoreRefused,regarding.name={node}"}
    try:
        events = cluster.api.list(EVENTS, query)["items"]
    except ForbiddenError:
        return ""
    fresh = [event for event in events if _last_seen(event) >= request_time.replace(microsecond=0)]
    return str(fresh[-1].get("note", "")) if fresh else ""


def _last_seen(event: Object) -> datetime:
    series = (event.get("series") or {}).get("lastObservedTime")
    text = series or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
