"""Keeps finished cells as JSON files, named by a hash of everything that they depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.evaluate.plan import Cell
from benchmarks.evaluate.tables import SHIPPED, Store

ROOT = Path(__file__).resolve().parents[2]
# What can change a figure: the science, the simulator, this study's own work, and the versions of libraries.
CODE = (
    "core/powertrain",
    "node_agent/powertrain_agent/simtrain.py",
    "node_agent/powertrain_agent/simulate/dynamics.py",
    "node_agent/powertrain_agent/simulate/workloads.py",
    "node_agent/powertrain_agent/simulate/workloads.toml",
    "benchmarks/evaluate/stepped.py",
    "benchmarks/evaluate/tables.py",
    "benchmarks/evaluate/work.py",
    "constraints.txt",
)


class Cache:
    """Finished cells in a folder; a cell whose inputs changed has another name, so it is computed again."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder, self._store = folder, store
        self._code = _code_digest()
        self._digests: dict[str, str] = {}

    def path(self, cell: Cell) -> Path:
        """Return where a cell's result lies, or will."""
        tables = [cell.target, *([] if cell.reference == SHIPPED else [cell.reference.split("#", maxsplit=1)[0]])]
        inputs = {"cell": asdict(cell), "code": self._code, "tables": [self._digest(name) for name in tables]}
        key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:24]
        return self._folder / f"{key}.json"

    def get(self, cell: Cell) -> Any | None:
        """Return a finished cell's result, None if it is not finished."""
        path = self.path(cell)
        return json.loads(path.read_text(encoding="utf-8"))["result"] if path.is_file() else None

    def put(self, cell: Cell, result: Any) -> None:
        """Keep a result; a run that is stopped half-way leaves no half file."""
        path = self.path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        text = json.dumps({"cell": asdict(cell), "result": result}, sort_keys=True, allow_nan=False)
        part.write_text(text, encoding="utf-8")
        part.replace(path)

    def _digest(self, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = self._store.digest(name)
        return self._digests[name]


def _code_digest() -> str:
    digest = hashlib.sha256()
    for file in _files(ROOT / name for name in CODE):
        digest.update(file.relative_to(ROOT).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _files(paths: Iterable[Path]) -> list[Path]:
    files = []
    for path in paths:
        inside = path.rglob("*") if path.is_dir() else [path]
        files += [file for file in inside if file.is_file() and file.suffix != ".pyc" and "api" not in file.parts]
    return sorted(files)
