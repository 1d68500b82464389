"""The verbs of `powertrain images`: list, push, import."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from powertrain_cli.errors import CliError
from powertrain_cli.images import archive, nodes
from powertrain_cli.images.registry import Registry
from powertrain_cli.output import JsonFlag, emit_json, stdout, table

PASSWORD = "POWERTRAIN_REGISTRY_PASSWORD"
Archives = Annotated[
    list[Path],
    typer.Argument(
        help="Image archives of a release (.tar or .tar.gz).", metavar="ARCHIVE...", exists=True, dir_okay=False
    ),
]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Bring the images of a release into a registry, or onto every node.",
)


@app.command("list")
def list_archives(paths: Archives, as_json: JsonFlag = False) -> None:
    """List which image each archive holds, for which architecture.

    [bold]Examples[/bold]

    powertrain images list dist/powertrain-image-*.tar.gz
    """
    archives = [archive.read(path) for path in paths]
    if as_json:
        emit_json([{"archive": str(a.path), "image": a.reference, "architecture": a.architecture} for a in archives])
        return
    rows = [(a.reference, a.architecture, f"{a.path.stat().st_size / 2**20:.0f}", a.path.name) for a in archives]
    table("Image archives", ("image", "for", "MiB", "archive"), rows, right=("MiB",))


@app.command("push")
def push(
    paths: Archives,
    registry: Annotated[str, typer.Option(help="HOST:PORT/PATH, the value of the chart's image.registry.")],
    user: Annotated[str, typer.Option(help=f"Who logs in; the password comes from ${PASSWORD}.")] = "",
    insecure: Annotated[bool, typer.Option("--insecure", help="Speak HTTP without TLS.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Push image archives to a registry of the site; prints each tag with its digest.

    Archives of one image for several architectures become one tag that serves all of them.

    [bold]Examples[/bold]

    powertrain images push dist/powertrain-image-*.tar.gz --registry registry.site.example/edge

    powertrain images push dist/powertrain-image-*-arm64.tar.gz --registry 192.168.7.2:5000 --insecure
    """
    host, _, folder = registry.removeprefix("https://").removeprefix("http://").strip("/").partition("/")
    client = Registry(host, user, os.environ.get(PASSWORD, ""), insecure or registry.startswith("http://"))
    archives = sorted((archive.read(path) for path in paths), key=lambda each: (each.repository, each.tag))
    pushed = []
    for (name, tag), group in groupby(archives, key=lambda each: (each.repository, each.tag)):
        repository = f"{folder}/{name}".strip("/")
        same = list(group)
        digest = client.push(repository, tag, same)
        row = {"image": f"{host}/{repository}:{tag}", "digest": digest, "for": [each.architecture for each in same]}
        pushed.append(row)
        if not as_json:
            stdout().print(f"{row['image']} {digest} ({', '.join(row['for'])})", soft_wrap=True)
    if as_json:
        emit_json(pushed)
    else:
        stdout().print(f"now install with --set image.registry={f'{host}/{folder}'.strip('/')}", soft_wrap=True)


@app.command("import")
def import_images(
    paths: Archives,
    ssh: Annotated[str, typer.Option(help="Nodes, with commas: USER@HOST,... as ssh takes them.")] = "",
    here: Annotated[bool, typer.Option("--here", help="This machine is the node.")] = False,
    print_only: Annotated[bool, typer.Option("--print", help="Only print what to run on each node.")] = False,
    folder: Annotated[
        bool, typer.Option("--folder", help=f"Put them into {nodes.FOLDER}, which k3s reads when it starts.")
    ] = False,
    ctr: Annotated[str, typer.Option(help="The ctr of the node's containerd, with its options.")] = nodes.CTR,
) -> None:
    """Import image archives into the containerd of nodes, by ssh or by a line to run there.

    Each node gets the archives for its own architecture. Users other than root need sudo without a password.

    [bold]Examples[/bold]

    powertrain images import dist/powertrain-image-*.tar.gz --ssh root@jetson-1,root@jetson-2

    powertrain images import dist/powertrain-image-*-arm64.tar.gz --print
    """
    if sum((bool(ssh), here, print_only)) != 1:
        raise CliError("choose a target: --ssh NODE,NODE, --here or --print")
    archives, way = [archive.read(path) for path in paths], nodes.Way(ctr, folder)
    if print_only:
        stdout().print("\n".join(way.one_liner(archives)), markup=False, soft_wrap=True)
        return
    for target in ssh.split(",") if ssh else [""]:
        took = nodes.import_over_ssh(target, archives, way) if target else nodes.import_here(archives, way)
        names = ", ".join(each.reference for each in took)
        stdout().print(f"{target or 'this machine'}: {names}", markup=False, soft_wrap=True)
    stdout().print("now install with --set image.local=true", markup=False)
