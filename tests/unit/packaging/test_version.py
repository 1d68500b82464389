"""One version: every file that must name it names the source's, and a bump reaches all of them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import powertrain
from powertrain_devcluster.testing.scripts import load_script

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def version() -> ModuleType:
    return load_script(ROOT / "hack" / "version.py")


def test_every_place_names_the_same_version(version: ModuleType) -> None:
    others = {path: named for path, named in version.versions(ROOT).items() if named != {powertrain.__version__}}
    assert others == {}, "write it with `make version-bump VERSION=…`"


def test_a_bump_reaches_every_place(version: ModuleType, tmp_path: Path) -> None:
    before = version.versions(ROOT)
    for name in [*before, "CHANGELOG.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changed = version.bump(tmp_path, "7.8.9", "2026-12-24")
    assert set(changed) == {*before, "CHANGELOG.md"}
    assert version.versions(tmp_path) == {name: {"7.8.9"} for name in before}
    assert "## Unreleased\n\n## 7.8.9 (2026-12-24)\n" in (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("wrong", ["", "1.2", "v1.2.3", "1.2.3-dirty"])
def test_a_bump_to_no_version_is_refused(version: ModuleType, tmp_path: Path, wrong: str) -> None:
    with pytest.raises(SystemExit, match=r"is not of the form 1\.2\.3"):
        version.bump(tmp_path, wrong, "2026-12-24")


def test_python_sources_do_not_repeat_it() -> None:
    folders = ("core", "kube", "node_agent", "operator", "cli", "devcluster")
    texts = {path: path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py")}
    repeated = [str(path.relative_to(ROOT)) for path, text in texts.items() if f"{powertrain.__version__}" in text]
    assert repeated == ["core/powertrain/__init__.py"]


def test_commit_hooks_use_the_tools_of_the_environment() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    own = {hook["id"]: hook["entry"] for hook in hooks if hook["language"] == "system"}
    assert own.keys() == {"ruff", "ruff-format", "check-yaml", "codespell", "prose"}
    assert all(entry.startswith(".venv/bin/python ") for entry in own.values())


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.y*ml")), ids=lambda path: path.name)
def test_the_workflow_calls_targets_that_exist(path: Path) -> None:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for job in document.get("jobs", {}).values():
        targets = [
            word for step in job["steps"] for word in re.findall(r"\bmake ([a-z-]+|\$\{\{)", step.get("run", ""))
        ]
        assert targets
        targets += job.get("strategy", {}).get("matrix", {}).get("target", [])
        for target in targets:
            assert target.startswith("${{") or f"\n{target}:" in makefile
