"""Builds a Grafana (AGPL) into the cache, for looking at dashboards; it is no part of what we ship.

Its module holds neither the built pages nor third-party scripts of old panels: the pages are built with Node.js
and npm's packages, and the scripts, which no panel of ours uses, are empty files.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from powertrain_devcluster.builds import gobuild
from powertrain_devcluster.builds.gomodule import GoModule, copy
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import ClusterError, MissingToolError
from powertrain_devcluster.paths import cache_dir, source_root

MODULE = "github.com/grafana/grafana"
PROGRAM = "grafana"
_WIRE = "github.com/google/wire/cmd/wire@v0.7.0"
_TITLE = "Grafana 10.0"
_YARN = ".yarn/releases/yarn-3.4.1.cjs"
_WEBPACK = ("node_modules/.bin/webpack", "--config", "scripts/webpack/webpack.prod.js", "--env", "noMinify=1")
# File, what is in it, what it becomes: a package from the registry instead of a web site, and plain folders.
_CHANGES = (
    ("package.json", "https://cdn.sheetjs.com/xlsx-0.19.1/xlsx-0.19.1.tgz", "0.18.5"),
    (".yarnrc.yml", "nodeLinker: pnp", "nodeLinker: node-modules"),
    ("scripts/webpack/webpack.common.js", "symlinks: false", "symlinks: true"),
)
_FLOT = ("", ".selection", ".time", ".stack", ".stackpercent", ".fillbelow", ".crosshair", ".dashes", ".gauge")
_EMPTY = (
    *(f"flot/jquery.flot{part}.js" for part in _FLOT),
    "bootstrap/bootstrap.js",
    "tagsinput/bootstrap-tagsinput.js",
)


def module() -> GoModule:
    """The pinned version of Grafana's sources."""
    pin = source_root() / "hack" / "grafana"
    match = re.search(rf"^require {re.escape(MODULE)} (v\S+)$", (pin / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{pin / 'go.mod'} requires no {MODULE}")
    return GoModule(MODULE, match.group(1), pin)


def entry(env: Mapping[str, str] = os.environ) -> Path:
    """Where the server and its pages are in the cache once they were built."""
    return cache_dir(env) / "grafana" / f"{module().version}-{platform.machine()}"


def programs(progress: Progress, env: Mapping[str, str] = os.environ) -> Path:
    """The folder with Grafana's server and pages, built when it is not there: 15 to 35 minutes on two cores."""
    target = entry(env)
    if not _whole(target):
        go = gobuild.require_go(_TITLE, env)
        for tool, reason in (("node", "Node.js 18 or 20"), ("npm", "npm"), ("gcc", "a C compiler: install gcc")):
            if shutil.which(tool, path=env.get("PATH")) is None:
                raise MissingToolError(f"{_TITLE} is not in the cache and cannot be built without {reason}")
        with staged(target, _TITLE, progress, _whole) as stage:
            if stage is not None:
                _build_into(stage, go, progress, env)
    return target


def _whole(folder: Path) -> bool:
    return (folder / PROGRAM).is_file() and (folder / "public/build").is_dir() and (folder / "conf").is_dir()


def _build_into(stage: Path, go: Path, progress: Progress, env: Mapping[str, str]) -> None:
    progress.waiting(f"Go to download {_TITLE}")
    source = copy(module(), go, stage.parent, env)
    prepare(source)
    progress.waiting(f"npm's packages of {_TITLE}, 2 to 20 minutes once")
    _run(["node", _YARN, "install"], source, {**env, **_yarn_settings(env)})
    progress.waiting(f"the pages of {_TITLE}, 4 minutes once")
    _run(["node", _YARN, "run", "i18n:compile"], source, env)
    _run(["node", *_WEBPACK], source, {**env, "NODE_ENV": "production", "NODE_OPTIONS": "--max-old-space-size=6000"})
    progress.waiting(f"the code that connects the parts of {_TITLE}, 2 minutes once")
    _run([go, "run", _WIRE, "gen", "-tags", "oss", "./pkg/server"], source, env)
    server = gobuild.GoBuild(
        title=_TITLE,
        directory=source,
        package="./pkg/cmd/grafana",
        output=PROGRAM,
        ldflags="-s -w",
        tags="oss",
        cgo=True,
        minutes="5 minutes",
    )
    gobuild.compile_into(server, stage, go, progress, env)
    for folder in ("public", "conf"):
        shutil.copytree(source / folder, stage / folder)


def prepare(source: Path) -> None:
    """Change the sources so that they build from the module and the packages of npm's registry alone."""
    for name, old, new in _CHANGES:
        text = (source / name).read_text(encoding="utf-8")
        if old not in text:
            raise ClusterError(f"{_TITLE}: {old!r} is not in {name}")
        (source / name).write_text(text.replace(old, new), encoding="utf-8")
    for name in _EMPTY:
        place = source / "public/vendor" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _yarn_settings(env: Mapping[str, str]) -> dict[str, str]:
    """Let yarn use the registry that npm is set up for, and run no scripts of packages."""
    command = ["npm", "config", "get", "registry"]
    registry = subprocess.run(command, env=dict(env), capture_output=True, text=True, check=False).stdout.strip()
    return {
        **({"YARN_NPM_REGISTRY_SERVER": registry} if registry else {}),
        "YARN_ENABLE_IMMUTABLE_INSTALLS": "false",
        "YARN_ENABLE_SCRIPTS": "false",
        "YARN_ENABLE_GLOBAL_CACHE": "false",
    }


def _run(command: Sequence[str | Path], folder: Path, env: Mapping[str, str]) -> None:
    words = [str(part) for part in command]
    result = subprocess.run(words, cwd=folder, env=dict(env), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        last = " ".join((result.stderr or result.stdout).split())[-600:]
        raise ClusterError(f"building {_TITLE} failed at {' '.join(words[:3])}: {last}")
