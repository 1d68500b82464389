"""The check of names finds bare participles that a file defines, and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from powertrain_devcluster.testing.scripts import load_script

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def names() -> ModuleType:
    return load_script(ROOT / "hack/check_names.py")


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "x, _told = 1, 2",
        "def known(): ...",
        "def f(*, given=1): ...",
        "async def _seen(): ...",
        "self.kept = 1",
        "if taken := 1: ...",
        "import json as made",
        "match 1:\n    case said: ...",
        "print(*(held for held in ()))",
    ],
)
def test_a_bare_participle_is_found_wherever_a_name_is_defined(names: ModuleType, code: str) -> None:
    assert len(names.findings(Path("core/module.py"), code)) == 1


@pytest.mark.parametrize(
    "code",
    ["found_modes = 1", "future.done()", "call(known=1)", "class Done: ...", "MADE = 'Made'", "'told'", "measured = 1"],
)
def test_nouns_names_of_others_classes_and_constants_are_left_alone(names: ModuleType, code: str) -> None:
    assert names.findings(Path("core/module.py"), code) == []


def test_the_fields_that_keep_their_names_exist(names: ModuleType) -> None:
    for path, field in names.FIELDS:
        assert f"    {field}: " in (ROOT / path).read_text(encoding="utf-8")
