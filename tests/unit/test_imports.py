"""What an import loads, and which Python it needs: agent and operator stay small, the SDK runs on Python 3.6."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "scipy", "sklearn")
SDK_FILES = sorted((ROOT / "sdk" / "powertrain_sdk").rglob("*.py"))


@pytest.mark.parametrize(
    "module",
    ["powertrain", "powertrain_kube", "powertrain_operator.main", "powertrain_agent", "powertrain_agent.main"],
)
def test_importing_it_loads_no_heavy_library(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} does not exist yet")
    code = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("path", SDK_FILES, ids=lambda path: path.name)
def test_the_sdk_is_python_3_6_syntax(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 6))
    # The parser lets some newer syntax through; what it tells us of it must be absent as well.
    newer = [type(node).__name__ for node in ast.walk(tree) if isinstance(node, ast.NamedExpr | ast.Match)]
    positional_only = [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.args.posonlyargs]
    futures = [
        alias.name
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom) and n.module == "__future__"
        for alias in n.names
    ]
    assert newer + positional_only == []
    assert "annotations" not in futures


def test_the_sdk_has_files_to_check() -> None:
    assert SDK_FILES
