"""The documentation's navigation: every page has its place, and the README leads to the answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mkdocs.utils import yaml_load

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
# A practical question, and the page that answers it: at most two clicks from the README.
QUESTIONS = {
    "How do I install it on k3s?": "how-to/install.md",
    "How do I install without a registry?": "how-to/install.md",
    "Can I only watch first?": "how-to/adopt.md",
    "How do I write my first job?": "how-to/train-a-model.md",
    "Why does my job not start?": "troubleshooting.md",
    "Why did it choose this mode?": "how-to/see-what-happens.md",
    "What does this condition mean?": "reference/conditions.md",
    "What happens to my other pods?": "how-to/share-a-board.md",
    "How do I run a site on one budget?": "how-to/site-budget.md",
    "How do I limit amperes?": "how-to/train-a-model.md",
    "How many watt-hours did it take?": "how-to/energy.md",
    "What if the agent dies?": "faq.md",
    "How do I restore a board by hand?": "troubleshooting.md",
    "How do I uninstall it?": "how-to/install.md",
    "How do I add my board?": "how-to/add-a-board.md",
    "How do I train on several boards?": "how-to/multi-node.md",
}


def entries(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from entries(value)
    else:
        for each in node:
            yield from entries(each)


def links(page: Path) -> set[Path]:
    targets = re.findall(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return {(page.parent / target).resolve() for target in targets if "://" not in target}


def test_every_page_but_the_records_is_in_the_navigation_once() -> None:
    listed = list(entries(yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if not re.match(r"\d{4}-", path.name)}
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_two_clicks_from_the_readme(question: str) -> None:
    first = links(ROOT / "README.md")
    second = set().union(*(links(page) for page in first if page.is_file()))
    assert (DOCS / QUESTIONS[question]).resolve() in first | second
