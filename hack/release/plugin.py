"""`kubectl-powertrain` as one file per architecture, and its manifest for krew.

Libraries with machine code are in it once per Python version (3.11 to 3.13), all others once. matplotlib is left out:
what needs it says how to get it.
"""

from __future__ import annotations

import csv
import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import yaml
from lock import PLUGIN_LOCK, PYTHONS, platforms
from reproducible_archives import ROOT, sha256, tar_gz, zip_tree

from powertrain import __version__

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
NAME = "kubectl-powertrain"
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = Path(__file__).with_name("plugin_main.py")
_UNUSED = ("tests", "include", "__pycache__", "bin")
_BOOKKEEPING = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def libraries(machine: str, python: str, target: Path) -> None:
    """Install the wheels of the CLI image's list for a machine and a Python; pip checks their hashes."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:", "--no-deps"]
    pip += [*platforms(machine, python), "--target", str(target), "--require-hashes", "--requirement", str(PLUGIN_LOCK)]
    subprocess.run(pip, check=True)


def share(tree: Path) -> None:
    """Move distributions without machine code, which are the same for every Python, from each `cpXY` to `any`."""
    for folder in sorted(tree.glob("cp3*")):
        for info in sorted(folder.glob("*.dist-info")):
            tags = [
                line for line in (info / "WHEEL").read_text(encoding="utf-8").splitlines() if line.startswith("Tag:")
            ]
            if all(tag.endswith("-none-any") for tag in tags):
                _move(info, folder, tree / "any")
    for path in sorted(tree.rglob("*"), reverse=True):
        if path.is_dir() and (path.name in _UNUSED or not any(path.iterdir())):
            shutil.rmtree(path)
        # Which Python installed what differs, and tells nothing.
        elif path.name in _BOOKKEEPING and path.parent.suffix == ".dist-info":
            path.unlink()


def _move(info: Path, folder: Path, shared: Path) -> None:
    """Move what a distribution recorded as its files."""
    with (info / "RECORD").open(encoding="utf-8", newline="") as record:
        names = [row[0] for row in csv.reader(record)]
    for name in names:
        source, target = folder / name, shared / name
        if ".." not in name and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)


def build(wheels: list[Path], out: Path, scratch: Path) -> list[Path]:
    """Write the programs and krew's archives of them."""
    files = []
    for architecture, machine in MACHINES.items():
        tree = scratch / f"plugin-{architecture}"
        for python in PYTHONS:
            libraries(machine, python, tree / f"cp{python.replace('.', '')}")
        share(tree)
        for wheel in wheels:
            zipfile.ZipFile(wheel).extractall(tree / "any")
        shutil.copy(MAIN, tree / "__main__.py")
        identity = hashlib.sha256()
        for path in sorted(path for path in tree.rglob("*") if path.is_file()):
            identity.update(f"{path.relative_to(tree)}\0".encode() + path.read_bytes())
        about = {"version": __version__, "architecture": architecture, "identity": identity.hexdigest()[:16]}
        (tree / "about.txt").write_text("".join(f"{key}={value}\n" for key, value in about.items()), encoding="utf-8")
        program = out / f"{NAME}-{__version__}-linux-{architecture}.pyz"
        zip_tree(tree, program, SHEBANG)
        program.chmod(0o755)
        packed = out / f"{NAME}-{__version__}-linux-{architecture}.tar.gz"
        content = {NAME: program.read_bytes(), "LICENSE": (ROOT / "LICENSE").read_bytes()}
        tar_gz(packed, content, frozenset({NAME}))
        program.unlink()
        files.append(packed)
    return files


def _architecture(archive: Path) -> str:
    return archive.name.removesuffix(".tar.gz").rpartition("-")[2]


def krew(archives: list[Path], out: Path, url: str) -> Path:
    """Write the manifest; without an address of the release it is for `kubectl krew install --manifest --archive`."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": _architecture(archive)}},
            "uri": f"{url.rstrip('/')}/{archive.name}",
            "sha256": sha256(archive),
            "bin": NAME,
            "files": [{"from": NAME, "to": "."}, {"from": "LICENSE", "to": "."}],
        }
        for archive in archives
    ]
    spec = {
        "version": f"v{__version__}",
        "shortDescription": "Train on Jetson boards within a power budget",
        "description": "Submits TrainingJobs of PowerTrain, shows their modes, watts and fronts, and explains them.\n",
        "caveats": "Needs Python 3.11, 3.12 or 3.13 on the machine where kubectl runs.\n",
        "platforms": platforms,
    }
    head = {"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin"}
    document = head | {"metadata": {"name": "powertrain"}, "spec": spec}
    target = out / "powertrain-krew.yaml"
    target.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return target
