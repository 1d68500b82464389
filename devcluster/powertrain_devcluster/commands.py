"""The verbs `powertrain cluster up | down | status | kubeconfig | logs`."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from powertrain_devcluster import kubeconfig, probe, supervisor
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.builds.progress import Progress, for_stream
from powertrain_devcluster.daemon import Request
from powertrain_devcluster.errors import BadInputError, ClusterError
from powertrain_devcluster.paths import DEFAULT_NAME, cluster_dir
from powertrain_devcluster.state import alive, is_held
from powertrain_devcluster.supervisor import Nodes

cluster_app = typer.Typer(
    no_args_is_help=True, help="A real Kubernetes on this machine, without Docker and without a registry."
)

Name = Annotated[str, typer.Option("--name", help="Which cluster; several can run at once.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else on stdout.")]
External = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Use this existing cluster instead of one of ours.")
]
_INTERRUPTED = 130
P = ParamSpec("P")
R = TypeVar("R")


def _one_line(verb: Callable[P, R]) -> Callable[P, R]:
    """Errors become one line on stderr and an exit code: 2 for a bad value, 3 for the machine."""

    @functools.wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except ClusterError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            typer.echo("interrupted; nothing was left behind", err=True)
            raise typer.Exit(_INTERRUPTED) from error

    return wrapped


def _say(as_json: bool, document: dict[str, Any], *lines: str) -> None:
    typer.echo(json.dumps(document) if as_json else "\n".join(lines))


@cluster_app.command()
@_one_line
def up(
    name: Name = DEFAULT_NAME,
    node: Annotated[bool, typer.Option("--node", help="Add a real node: kubelet and containerd (needs root).")] = False,
    k3s: Annotated[
        bool, typer.Option("--k3s", help="A real k3s instead: a server and an agent node (needs root).")
    ] = False,
    simulate_nodes: Annotated[
        int, typer.Option("--simulate-nodes", min=0, max=100, help="Add nodes whose pods run as local processes.")
    ] = 0,
    external: External = None,
    as_json: AsJson = False,
) -> None:
    """Start a cluster and return when it is ready."""
    if external is not None:
        _status_of_external(external, as_json)
        return
    nodes_wanted = Nodes(node, k3s, simulate_nodes)
    folder = cluster_dir(name)
    began_s = time.monotonic()
    if is_held(folder):
        with for_stream() as progress:
            cluster = supervisor.join(folder, nodes_wanted, progress)
        _say(as_json, asdict(cluster), f"cluster {name} is up already at {cluster.server}")
        return
    with for_stream() as progress:
        cluster = supervisor.up(_request(name, folder, nodes_wanted, progress), progress)
    seconds = time.monotonic() - began_s
    option = "" if name == DEFAULT_NAME else f" --name {name}"
    _say(
        as_json,
        {**asdict(cluster), "seconds": round(seconds, 1)},
        f"cluster {name} is ready at {cluster.server} after {seconds:.1f} s",
        f"  export KUBECONFIG={cluster.kubeconfig}",
        f"  powertrain cluster down{option}",
    )


def _request(name: str, folder: Path, nodes_wanted: Nodes, progress: Progress) -> Request:
    if nodes_wanted.k3s:
        from powertrain_devcluster.k3s.programs import K3sPrograms

        return Request(name, str(folder), {}, k3s=True, programs=K3sPrograms.find(progress).to_dict())
    if nodes_wanted.node:
        from powertrain_devcluster.node.node import NodePrograms

        return Request(name, str(folder), {}, nodes_wanted.simulated, True, NodePrograms.find(progress).to_dict())
    programs = binaries.resolve(binaries.CONTROL_PLANE, progress)
    return Request(name, str(folder), {key: str(path) for key, path in programs.items()}, nodes_wanted.simulated)


@cluster_app.command()
@_one_line
def down(name: Name = DEFAULT_NAME, as_json: AsJson = False) -> None:
    """End a cluster and remove everything that it made."""
    folder = cluster_dir(name)
    with for_stream() as progress:
        if folder.exists():
            progress.waiting(f"cluster {name} to end")
        existed = supervisor.down(folder)
    _say(as_json, {"name": name, "existed": existed}, f"cluster {name} is {'gone' if existed else 'not up'}")


@cluster_app.command()
@_one_line
def status(name: Name = DEFAULT_NAME, external: External = None, as_json: AsJson = False) -> None:
    """Say whether a cluster is ready, and what it runs."""
    if external is not None:
        _status_of_external(external, as_json)
        return
    cluster = supervisor.running(cluster_dir(name))
    processes = {key: alive(pid) for key, pid in cluster.processes.items()}
    ready = cluster.phase == "ready" and probe.ready(Path(cluster.kubeconfig))
    lines = [f"cluster {name} is {'ready' if ready else cluster.phase + ', not ready'}: {cluster.server}"]
    lines += [f"  {key}: {'runs' if runs else 'ended, see ' + cluster.logs}" for key, runs in processes.items()]
    lines += [f"  node {each}" for each in cluster.nodes]
    _say(as_json, {**asdict(cluster), "ready": ready, "alive": processes}, *lines)
    if not ready:
        raise typer.Exit(ClusterError.exit_code)


def _status_of_external(path: Path, as_json: bool) -> None:
    server = kubeconfig.check(path)
    version = probe.version(path, server)
    document = {"server": server, "kubeconfig": str(path), "version": version, "ready": True, "external": True}
    _say(as_json, document, f"{path}: Kubernetes {version} answers at {server}")


@cluster_app.command("kubeconfig")
@_one_line
def print_kubeconfig(
    name: Name = DEFAULT_NAME,
    external: External = None,
    path_only: Annotated[bool, typer.Option("--path", help="Print the path of the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the administrator's kubeconfig."""
    path = external or Path(supervisor.running(cluster_dir(name)).kubeconfig)
    if not path.is_file():
        raise ClusterError(f"cluster {name!r} is still starting; its kubeconfig is not written yet")
    server = kubeconfig.check(path)
    _say(as_json, {"kubeconfig": str(path), "server": server}, str(path) if path_only else path.read_text().rstrip())


@cluster_app.command()
@_one_line
def logs(
    process: Annotated[str, typer.Argument(help="Which process; all of them when left out.")] = "",
    name: Name = DEFAULT_NAME,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Print the last lines that the cluster's processes wrote."""
    folder = Path(supervisor.running(cluster_dir(name)).logs)
    files = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if process and process not in files:
        raise BadInputError(f"no log of {process!r}; there are: {', '.join(files) or 'none yet'}")
    selected = {process: files[process]} if process else files
    tails = {key: list(_tail(path, lines)) for key, path in selected.items()}
    document = {"folder": str(folder), "logs": tails}
    _say(as_json, document, *(f"{key}: {line}" for key, tail in tails.items() for line in tail))


def _tail(path: Path, lines: int) -> Iterator[str]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - lines * 500))
        yield from file.read().decode(errors="replace").splitlines()[-lines:]
