"""The wording check finds phrases of its list in prose and messages, and nothing in code."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from powertrain_devcluster.testing.scripts import load_script

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    return load_script(ROOT / "hack/check_prose.py")


@pytest.mark.parametrize(
    "text",
    [
        "Every board is given back at the end.",
        "This is no Jetson.",
        "The board shows what was found.",
        "The condition says so.",
        "It waits for ever.",
        "The the word stands twice.",
    ],
)
def test_a_phrase_of_the_list_is_found_with_its_line_and_what_to_write(prose: ModuleType, text: str) -> None:
    (finding,) = prose.findings(Path("page.md"), f"# Title\n\n{text}\n", prose.rules())
    assert (finding.line, bool(finding.instead)) == (3, True)


@pytest.mark.parametrize(
    "text",
    [
        "There is no such node, and it is no longer used.",
        "Run `this is no number`.",
        "```\nwhat was found\n```",
        "See [the page](what-was-found-is-no-page.md).",
    ],
)
def test_plain_sentences_and_code_are_left_alone(prose: ModuleType, text: str) -> None:
    assert prose.findings(Path("page.md"), text, prose.rules()) == []


def test_of_python_only_messages_count(prose: ModuleType) -> None:
    code = '"""A name is no number."""\nname = "no number"\nraise ValueError(f"{name} is no number at all")\n'
    assert [finding.line for finding in prose.findings(Path("code.py"), code, prose.rules())] == [3]


def test_of_yaml_only_comments_count(prose: ModuleType) -> None:
    values = "# Restores what was found.\nmessage: this is no comment\n"
    assert [finding.line for finding in prose.findings(Path("values.yaml"), values, prose.rules())] == [1]


def test_everything_that_users_read_is_checked(prose: ModuleType) -> None:
    names = {str(path.relative_to(ROOT)) for path in prose.all_files()}
    assert {"README.md", "docs/faq.md", "charts/powertrain/values.yaml", "cli/powertrain_cli/main.py"} <= names
