"""Builds the Python environment: third-party packages in the cache, a thin .venv in the clone that links to them.

Usage: python3 hack/environment.py [nn]

Packages live under ${XDG_CACHE_HOME:-~/.cache}/powertrain/python/, keyed by Python version and the pins in
constraints.txt, so that every clone of the same commit shares them and a warm start takes a fraction of a second. The
layer `nn` (torch, gigabytes) is apart, so that what does not need torch never waits for it. `tools` (hack/tools.txt)
is apart too: another linter installs no torch again. Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "powertrain" / "python"
NN_SECTION = "# --- nn"
COMPLETE = "complete"
BASE_EXTRAS = ("agent", "operator", "jtop", "cli", "dev")


def main(layers: list[str]) -> None:
    """Make sure that .venv exists and sees the base layer and the asked ones."""
    if sys.version_info < (3, 11):  # noqa: UP036 - people start this with whatever python3 is
        have = sys.version.split()[0]
        sys.exit(f"Python 3.11 or newer is needed, this is {have}: name another one, make PYTHON3=python3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    base_pins, nn_pins = _pins()
    devcluster = tomllib.loads((ROOT / "devcluster" / "pyproject.toml").read_text())["project"]
    base_requirements = project["dependencies"] + [r for extra in BASE_EXTRAS for r in extras[extra]]
    base_requirements += [r for r in devcluster["dependencies"] if not r.startswith(project["name"])]
    base = _layer("base", base_pins, base_requirements, parents=[])
    linked = [base, _layer("tools", base_pins, _tools(), parents=[base])]
    if "nn" in layers or (_target("nn", base_pins + nn_pins, extras["nn"]) / COMPLETE).exists():
        linked.append(_layer("nn", base_pins + nn_pins, extras["nn"], parents=[base]))
    _link(linked)


def _tools() -> list[str]:
    lines = (ROOT / "hack" / "tools.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _pins() -> tuple[str, str]:
    base, marker, nn = (ROOT / "constraints.txt").read_text().partition(NN_SECTION)
    if not marker:
        sys.exit(f"constraints.txt has lost its line {NN_SECTION!r}")
    return base, nn


def _target(name: str, pins: str, requirements: list[str]) -> Path:
    identity = "\n".join([sys.version, name, pins, *requirements])
    return CACHE / f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def _layer(name: str, pins: str, requirements: list[str], parents: list[Path]) -> Path:
    """Return the environment that holds these requirements, built once for all clones."""
    target = _target(name, pins, requirements)
    if (target / COMPLETE).exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / COMPLETE).exists():
            _build(name, target, requirements, parents)
    return target


def _build(name: str, target: Path, requirements: list[str], parents: list[Path]) -> None:
    start_s = time.monotonic()
    size = {"nn": "about 3 GB, some minutes", "tools": "some seconds"}.get(name, "about a minute")
    _say(f"installing the Python packages of layer {name!r} once ({size})")
    shutil.rmtree(target, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(target)])
    _write_links(target, parents)
    python = str(target / "bin" / "python")
    # jetson-stats installs a system service when built by root on a bare host, unless it believes to be in a container.
    environment = {**os.environ, "container": "powertrain-build", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [python, "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), *requirements]
    _run(command, env=environment)
    (target / COMPLETE).write_text("")
    _say(f"layer {name!r} ready after {time.monotonic() - start_s:.0f} s")


def _link(layers: list[Path]) -> None:
    """Make .venv see the layers and install our own packages into it as editable."""
    venv = ROOT / ".venv"
    homes = (ROOT, ROOT / "sdk", ROOT / "devcluster")
    files = [home / "pyproject.toml" for home in homes]
    identity = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest() + str(ROOT)
    stamp = venv / "linked"
    content = "\n".join([identity, *map(str, layers)])
    if stamp.exists() and set(content.split("\n")) <= set(stamp.read_text().split("\n")):
        return
    shutil.rmtree(venv, ignore_errors=True)
    _run([sys.executable, "-m", "venv", "--without-pip", str(venv)])
    _write_links(venv, layers)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    _run([*pip, *(word for home in homes for word in ("--editable", str(home)))])
    stamp.write_text(content)


def _write_links(venv: Path, layers: list[Path]) -> None:
    lines = "".join(f"{_site(layer)}\n" for layer in layers)
    (_site(venv) / "powertrain-layers.pth").write_text(lines)


def _site(venv: Path) -> Path:
    return Path(sysconfig.get_path("purelib", scheme="venv", vars={"base": str(venv), "platbase": str(venv)}))


def _run(command: list[str], env: dict[str, str] | None = None) -> None:
    result = subprocess.run(command, env=env, check=False)
    if result.returncode != 0:
        sys.exit(f"setting up failed: {' '.join(command[:6])} … ended with {result.returncode}; its messages are above")


def _say(text: str) -> None:
    print(f"environment: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
