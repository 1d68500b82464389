"""The product's wheel holds what its programs load, and nothing that only tests or the development cluster use."""

from __future__ import annotations

import ast
import configparser
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {"powertrain", "powertrain_agent", "powertrain_cli", "powertrain_kube", "powertrain_operator"}
# What the programs read besides Python: boards, simulated workloads, trained references, the report's page, and markers
# of typed packages.
DATA = {".LICENSE", ".css", ".js", ".json", ".npz", ".safetensors", ".toml", ".typed"}
STARTS = 'if __name__ == "__main__"'
# Modules that no program of the product loads, and who needs them.
FOR_OTHERS = {
    "powertrain.api.schema": "makes the CRDs: hack/generate_crds.py and the development cluster",
    "powertrain_agent.governing.transitions": "reads the machine's transitions: hack/machine_page.py and tests",
    "powertrain_agent.planning.inline": "the planner of a simulated session, below",
    "powertrain_agent.simulate.simulation": "runs a session in simulated time: benchmarks and tests",
    "powertrain_agent.history": "keeps a session's history, for the report to come",
    "powertrain_cli.report": "makes a job's report, for a verb to come",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    built = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("dist")), versions=["standard"]))
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def files(wheel: zipfile.ZipFile) -> list[str]:
    return [name for name in wheel.namelist() if ".dist-info/" not in name]


def test_it_holds_the_product_s_packages_alone(files: list[str]) -> None:
    assert {name.split("/")[0] for name in files} == PACKAGES


def test_it_holds_python_and_the_data_that_it_reads(files: list[str]) -> None:
    assert {Path(name).suffix for name in files} <= DATA | {".py"}


def test_no_file_in_it_is_a_test_or_needs_a_test_library(wheel: zipfile.ZipFile, files: list[str]) -> None:
    sources = {name: wheel.read(name).decode() for name in files if name.endswith(".py")}
    named = [name for name in sources if {"test", "tests", "testing", "conftest.py"} & set(name.split("/"))]
    needy = [
        name for name, text in sources.items() if {"pytest", "hypothesis"} & {m.split(".")[0] for m in imports(text)}
    ]
    assert named + needy == []


def test_programs_of_the_product_load_every_module(wheel: zipfile.ZipFile, files: list[str]) -> None:
    texts = {module_of(name): wheel.read(name).decode() for name in files if name.endswith(".py")}
    entries = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    scripts = configparser.ConfigParser()
    scripts.read_string(wheel.read(entries[0]).decode())
    roots = {value.split(":")[0] for value in scripts["console_scripts"].values()}
    roots |= {name for name, text in texts.items() if name.endswith(".__main__") or STARTS in text}
    unused = set(texts) - reachable(roots, texts)
    assert {module for module in unused if not module.startswith(tuple(FOR_OTHERS))} == set(), (
        "only tests load these modules, or nobody; move them to tests/ or devcluster/, or remove them"
    )


def module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(text: str) -> Iterator[str]:
    """The modules that a source names: in its imports, and in strings for those that it loads by name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("powertrain"):
            yield node.value


def reachable(roots: set[str], texts: dict[str, str]) -> set[str]:
    names: set[str] = set()
    waiting = set(roots)
    while waiting:
        module = waiting.pop()
        names.add(module)
        parents = {module.rsplit(".", depth)[0] for depth in range(1, module.count(".") + 1)}
        waiting |= ((set(imports(texts[module])) | parents) & set(texts)) - names
    return names
