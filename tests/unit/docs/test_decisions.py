"""Decision records: numbered without gaps, each with its parts, all in the index."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "decisions"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")
STATUS = re.compile(r"^Date: 20\d\d-\d\d-\d\d\. Status: (accepted|superseded by \[\d{4}\]\((?P<by>[^)]+)\))\.$", re.M)


def test_they_are_numbered_without_gaps() -> None:
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_a_date_a_status_and_its_three_parts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    status = STATUS.search(text)
    assert status, "write: Date: 2026-01-31. Status: accepted. (or: superseded by [0007](0007-name.md).)"
    assert status["by"] is None or (FOLDER / status["by"]).is_file()
    assert re.findall(r"^## (.*)$", text, re.M) == ["Context", "Decision", "Consequences"]
    assert text.startswith(f"# {path.name[:4]}: ")
    assert f"]({path.name})" in (FOLDER / "index.md").read_text(encoding="utf-8")
