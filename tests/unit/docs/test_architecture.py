"""The architecture page: every step of a job's path names files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "architecture.md"
PATH = PAGE.read_text(encoding="utf-8").split("## The path of one job")[1].split("\n## ")[0]
STEPS = re.split(r"\n(?=\d+\. )", PATH.strip())


def test_the_steps_are_numbered_in_order() -> None:
    assert [int(step.split(".")[0]) for step in STEPS] == list(range(1, len(STEPS) + 1))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.split(".")[0])
def test_the_files_of_a_step_exist(step: str) -> None:
    files = re.findall(r"`([\w/]+\.py)`", step)
    missing = [file for file in files if not (ROOT / file).is_file()]
    names = {file: [str(p.relative_to(ROOT)) for p in ROOT.glob(f"[a-z]*/**/{Path(file).name}")] for file in missing}
    assert files, "name the file that does it"
    assert missing == [], f"in docs/architecture.md, write where these are now; files of the same name: {names}"


def test_the_page_has_at_most_three_printed_pages() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 3 * 50
