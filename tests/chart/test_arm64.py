"""Images for boards: every program in them is for arm64, and runs under a user-mode emulator."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from powertrain import __version__
from powertrain_devcluster.builds import images, prepare
from powertrain_devcluster.errors import MissingToolError, UnsupportedMachineError

from .conftest import ROOT

AARCH64 = 183  # e_machine of ELF
ASK = """
from powertrain import devices
from powertrain.profiling import Problem
from powertrain.session import Ask, ProfilingSession
session = ProfilingSession(Problem(devices.get("thor").space()), "transfer", None)
answer = session.ask()
assert isinstance(answer, Ask)
print(answer.mode)
from powertrain_agent.main import run
run(["--version"])
"""


@pytest.fixture(scope="session")
def emulator() -> Path:
    try:
        return images.emulator(prepare.Ready())
    except (MissingToolError, UnsupportedMachineError) as error:
        pytest.skip(f"no emulator of arm64: {error}")


def parts(name: str) -> tuple[Path, Path]:
    try:
        return images.foundation(images.recipe(name, "arm64"), prepare.Ready())
    except (MissingToolError, UnsupportedMachineError) as error:
        pytest.skip(f"packages for arm64 can't be had: {error}")


def machines(tree: Path) -> Iterator[tuple[Path, int]]:
    """Every ELF file with the machine that it is for."""
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                head = file.read(20)
            if head[:4] == b"\x7fELF":
                yield path, struct.unpack_from("<H", head, 18)[0]


def run(emulator: Path, name: str, *arguments: str) -> str:
    base, libraries = parts(name)
    rooms = [ROOT / room for room in ("core", "kube", "operator", "node_agent", "sdk")]
    path = os.pathsep.join(map(str, (libraries / "opt/powertrain/lib", *rooms)))
    # Compiling under the emulator takes most of the time, so it is done once.
    env = {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(emulator.parent / "pycache"), "OMP_NUM_THREADS": "1"}
    command = [str(emulator), "-L", str(base), str(base / "usr/bin/python3.11"), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", prepare.FOR_BOARDS)
def test_every_program_is_for_arm64(name: str) -> None:
    found = [each for tree in parts(name) for each in machines(tree)]
    assert len(found) > 20
    assert [str(path) for path, machine in found if machine != AARCH64] == []


@pytest.mark.parametrize("name", prepare.FOR_BOARDS)
def test_the_image_s_python_takes_its_bytecode_unchecked(
    name: str, emulator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", None)  # where this machine keeps its own bytecode
    base, libraries = parts(name)
    compiled = images.bytecode(images.recipe(name, "arm64"), prepare.Ready())
    magic = run(emulator, name, "-S", "-c", "from importlib.util import MAGIC_NUMBER; print(MAGIC_NUMBER.hex())")
    heads = {path.relative_to(compiled): path.read_bytes()[:8] for path in compiled.rglob("*") if path.is_file()}
    # Its number, then 1: by a hash of the source that nobody compares.
    assert set(heads.values()) == {bytes.fromhex(magic) + b"\1\0\0\0"}
    sources = [(tree, path) for tree in (base, libraries) for path in tree.rglob("*.py") if not path.is_symlink()]
    inside = [path.relative_to(tree) for tree, path in sources]
    missing = [path for path in inside if Path(cache_from_source(path)) not in heads]
    assert [str(path) for path in missing if "opt/powertrain/lib/kubernetes" not in str(path)] == []


@pytest.mark.parametrize("name", prepare.FOR_BOARDS)
def test_nothing_in_it_builds_or_installs(name: str) -> None:
    base, libraries = parts(name)
    programs = {path.name for folder in ("usr/bin", "usr/sbin", "usr/local/bin") for path in (base / folder).glob("*")}
    tools = {"gcc", "cc", "ld", "make", "pip", "pip3", "apt", "apt-get", "dpkg", "curl", "wget", "perl"}
    assert programs & tools == set()
    assert not {"pip", "setuptools", "wheel", "torch"} & {path.name for path in libraries.glob("opt/powertrain/lib/*")}


def test_the_operator_says_its_version(emulator: Path) -> None:
    told = run(emulator, "operator", "-m", "powertrain_operator.main", "--version")
    assert told == f"powertrain-operator {__version__}\n"


def test_the_gate_says_its_version_and_opens(emulator: Path, tmp_path: Path) -> None:
    assert run(emulator, "init", "-m", "powertrain_sdk.gate", "--version") == f"powertrain-gate {__version__}\n"
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    ready = {"session": "one", "boot_id": boot_id, "mode": "12c"}
    (tmp_path / "ready").write_text(json.dumps(ready), encoding="utf-8")
    brought = tmp_path / "sdk"
    arguments = ("--dir", str(tmp_path), "--session", "one", "--install", str(brought))
    assert "open, safe mode 12c" in run(emulator, "init", "-m", "powertrain_sdk.gate", *arguments)
    assert (brought / "powertrain_sdk/gate.py").exists()


def test_the_training_example_tells_what_it_can_train(emulator: Path) -> None:
    assert "one of bert, " in run(emulator, "training-example", "-m", "powertrain_agent.simtrain", "--help")


def test_the_agent_says_its_version_and_plans_a_mode(emulator: Path) -> None:
    # In one process: under the emulator the libraries alone take most of the time.
    mode, version = run(emulator, "agent", "-c", ASK).splitlines()
    assert "c_" in mode
    assert version == f"powertrain-agent {__version__}"
