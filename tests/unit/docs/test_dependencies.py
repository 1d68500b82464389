"""The page of dependencies names what pyproject.toml asks for, extra by extra."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ASKED = {"Always": PROJECT["dependencies"]} | {
    f"Extra `{extra}`": requirements for extra, requirements in PROJECT["optional-dependencies"].items()
}
DEVCLUSTER = tomllib.loads((ROOT / "devcluster/pyproject.toml").read_text(encoding="utf-8"))["project"]
ASKED[f"Distribution `{DEVCLUSTER['name']}`"] = DEVCLUSTER["dependencies"]
TOOLS = [line for line in (ROOT / "hack/tools.txt").read_text().splitlines() if not line.startswith("#")]
OURS = {PROJECT["name"], DEVCLUSTER["name"]}


def sections() -> dict[str, set[str]]:
    """Return the packages that each section of the page lists."""
    imports_of: dict[str, set[str]] = {}
    for part in (ROOT / "docs/dependencies.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        rows = re.findall(r"^\| ([^|]+) \|", body, re.MULTILINE)
        imports_of[title.strip()] = {row.strip() for row in rows} - {"Package"}
    return imports_of


@pytest.mark.parametrize("title", ASKED)
def test_every_dependency_stands_there_with_its_reason_and_no_other(title: str) -> None:
    names = {re.split(r"[<>=!~\[; ]", requirement)[0] for requirement in ASKED[title]}
    assert sections().get(title) == names


@pytest.mark.parametrize("title", ASKED)
def test_every_dependency_is_pinned(title: str) -> None:
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    names = {re.split(r"[<>=!~\[; ]", requirement)[0].lower() for requirement in ASKED[title]}
    assert {name.replace("-", "_") for name in names - OURS} <= {name.replace("-", "_") for name in pinned}


def test_every_tool_is_pinned_and_has_its_reason() -> None:
    names = {tool.partition("==")[0] for tool in TOOLS}
    assert all("==" in tool for tool in TOOLS)
    assert names
    assert sections().get("Tools") == names
