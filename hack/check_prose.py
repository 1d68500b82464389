"""Checks the wording of docs, chart texts and messages in code against the project's list of words (hack/prose.toml).

Usage: python hack/check_prose.py [PATH...]   (default: everything that a user reads)

The list names a pattern and what to write instead. Code blocks, `code` and the targets of
links are not prose. Of Python files only messages count: strings of three words or more that are no docstrings.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md", "examples/**/*.md")
CHART = ("charts/powertrain/values.yaml", "charts/powertrain/templates/NOTES.txt")
CODE = ("core", "kube", "sdk", "node_agent", "operator", "cli")
# Records of what was decided once: they are history and stay as they were written.
SKIPPED = ("docs/decisions/",)
_FENCE = re.compile(r"^\s*(```|~~~)")
_NOT_PROSE = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]*>|\{\{.*?\}\}|https?://\S+")


@dataclass(frozen=True)
class Rule:
    """One entry of the list."""

    pattern: re.Pattern[str]
    instead: str


@dataclass(frozen=True)
class Finding:
    """A place that needs other words."""

    path: Path
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.text}': {self.instead}"


def rules(path: Path = ROOT / "hack" / "prose.toml") -> list[Rule]:
    """Return the list of words."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["rule"]
    return [Rule(re.compile(entry["pattern"], re.IGNORECASE), entry["instead"]) for entry in entries]


def lines_of(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Return the lines of prose in a file with their numbers, without code."""
    if path.suffix == ".py":
        yield from _messages(text)
    elif path.suffix == ".yaml":
        for number, line in enumerate(text.splitlines(), 1):
            _, mark, comment = line.partition("# ")
            if mark:
                yield number, comment
    else:
        yield from _page(text)


def _page(text: str) -> Iterator[tuple[int, str]]:
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            yield number, _NOT_PROSE.sub(" ` ", line)


def _messages(text: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(text)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            for offset, line in enumerate(node.value.splitlines()):
                if len(line.split()) >= 3:
                    yield node.lineno + offset, _NOT_PROSE.sub(" ` ", line)


def findings(path: Path, text: str, word_rules: list[Rule]) -> list[Finding]:
    """Return what the list finds in one file."""
    return [
        Finding(path, number, match[0], rule.instead)
        for number, line in lines_of(path, text)
        for rule in word_rules
        for match in rule.pattern.finditer(line)
    ]


def all_files() -> list[Path]:
    """Return every file that a user reads, or whose messages a user reads."""
    paths = [path for pattern in (*PAGES, *CHART) for path in ROOT.glob(pattern)]
    paths += [path for folder in CODE for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in paths if not str(path.relative_to(ROOT)).startswith(SKIPPED))


def main(arguments: list[str]) -> int:
    """Print every finding; 1 if there is one."""
    word_rules, count = rules(), 0
    for path in [Path(argument) for argument in arguments] or all_files():
        short_path = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        for finding in findings(short_path, path.read_text(encoding="utf-8"), word_rules):
            print(finding)
            count += 1
    if count:
        print(f"{count} places need other words; the list is hack/prose.toml", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
