"""Checks that no identifier is a bare participle such as `found` or `told`: a noun says what the value is.

Usage: python hack/check_names.py [PATH...]   (default: the packages, the development cluster, hack and the examples)

Only names that a file defines count: functions, arguments, variables and attributes. Classes and constants are names of
states, which other programs may read.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("core", "kube", "sdk", "node_agent", "operator", "cli", "devcluster", "hack", "examples")
# Participles alone say that something happened, not what the value is.
PARTICIPLES = frozenset(
    [
        "asked",
        "begun",
        "done",
        "found",
        "given",
        "gone",
        "got",
        "heard",
        "held",
        "kept",
        "known",
        "learnt",
        "made",
        "noted",
        "proven",
        "reckoned",
        "said",
        "seen",
        "sent",
        "settled",
        "shown",
        "taken",
        "told",
        "wanted",
    ]
)
# Fields of messages between processes keep their names.
FIELDS = {("node_agent/powertrain_agent/planning/messages.py", "done")}


@dataclass(frozen=True)
class Finding:
    """A name that needs a noun."""

    path: Path
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: the name '{self.name}' is a bare participle: write a noun for what it holds"


def findings(path: Path, text: str) -> list[Finding]:
    """Return the names of a file that are bare participles."""
    names = sorted(set(_definitions(ast.parse(text))))
    return [
        Finding(path, line, name)
        for line, name in names
        if name.strip("_") in PARTICIPLES and (path.as_posix(), name) not in FIELDS
    ]


def _definitions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case _:
                pass


def main(arguments: list[str]) -> int:
    """Check the files and print what is wrong; the exit code."""
    paths = [Path(each).resolve() for each in arguments]
    paths = paths or sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    problems = [
        finding for path in paths for finding in findings(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    ]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
