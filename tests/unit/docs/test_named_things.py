"""What the pages name exists: commands with their options, targets of make, files, and tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from powertrain_agent.main import parser as agent_parser
from powertrain_cli.main import VERBS

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("images/*.md"),
     ROOT / "charts/powertrain/templates/NOTES.txt"]
)  # fmt: skip
BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
PROMPT = re.compile(r"^(\$ )?(sudo )?")
SHELL = re.compile(r"\s#.*|[|;>)].*| -- .*|…")  # what is not, or no longer, the command's own
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build", "site"}
TEST = re.compile(r"(?P<file>[\w/]*\btest_\w+\.py)(::(?P<name>\w+))?")
SOURCES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}


def words_on(page: Path) -> Iterator[str]:
    """Yield what a page shows as code, line by line; a line that goes on is one."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.findall(text):
        yield from (PROMPT.sub("", line.strip()) for line in re.sub(r"\\\n\s*", " ", block).splitlines())
    yield from (" ".join(code.split()) for code in INLINE.findall(BLOCK.sub("", text)))


def options_of(command: Any) -> set[str]:
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}


def wrong_verb(words: list[str]) -> str | None:
    """Return what a call of `powertrain` has wrong; words in capitals stand for the reader's own."""
    if not words or words[0].startswith("-"):
        return None
    loaded = {verb.name: verb for verb in VERBS}
    if words[0] not in loaded:
        return f"no verb {words[0]!r}"
    command, rest = loaded[words[0]].load(), words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    return next(
        (f"no option {word}" for word in rest if word.startswith("-") and word not in options_of(command)), None
    )


def wrong_agent(words: list[str]) -> str | None:
    option_names = {name for action in agent_parser()._actions for name in action.option_strings}
    return next((f"no option {word}" for word in words if word.startswith("--") and word not in option_names), None)


def wrong_target(words: list[str]) -> str | None:
    return f"no target {words[0]!r}" if words and words[0].islower() and words[0] not in TARGETS else None


PROGRAMS: dict[str, Callable[[list[str]], str | None]] = {
    "powertrain": wrong_verb,
    "powertrain-agent": wrong_agent,
    "make": wrong_target,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_exists_with_these_options(page: Path) -> None:
    wrong = []
    for line in words_on(page):
        program, *words = SHELL.sub("", line).split() or [""]
        reason = PROGRAMS[program](words) if program in PROGRAMS and (words or program != "make") else None
        if reason:
            wrong.append(f"{line}: {reason}")
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_of_the_repository_exists(page: Path) -> None:
    named = {
        word for word in words_on(page) if re.fullmatch(r"[\w.-]+/[\w./-]+", word) and word.split("/")[0] in FOLDERS
    }
    assert sorted(word for word in named if not (ROOT / word).exists()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_test_exists(page: Path) -> None:
    wrong = []
    for word in words_on(page):
        for match in TEST.finditer(word.replace("…::", "test_x.py::") if word.startswith("…::") else word):
            file, name = match["file"], match["name"]
            places = [text for path, text in SOURCES.items() if file == "test_x.py" or path.as_posix().endswith(file)]
            if not (places or (ROOT / file).is_file()) or (name and not any(f"def {name}" in text for text in places)):
                wrong.append(word)
    assert wrong == []
