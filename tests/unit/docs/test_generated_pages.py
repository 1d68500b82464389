"""The generated reference pages are those the generator would write now."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from powertrain import devices

ROOT = Path(__file__).resolve().parents[3]
GENERATOR = runpy.run_path(str(ROOT / "hack/generate_docs.py"))
PAGES = GENERATOR["PAGES"]


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    page = ROOT / name
    assert page.is_file(), f"{name} is missing: run `make manifests`"
    assert page.read_text(encoding="utf-8") == PAGES[name](), f"{name} is old: run `make manifests`"


def test_the_page_of_devices_has_a_row_and_a_section_for_each_board() -> None:
    page = PAGES["docs/reference/devices.md"]()
    for name in devices.names():
        assert f"| [`{name}`](#{name}) |" in page
        assert f"\n## {name}\n" in page


def test_an_uncertain_table_is_marked_in_the_overview() -> None:
    row = next(line for line in PAGES["docs/reference/devices.md"]().splitlines() if line.startswith("| [`nano`]"))
    assert "| 15 | 12 | 7? | 5,040? |" in row
    assert row.endswith("| no |")
