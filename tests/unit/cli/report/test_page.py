"""The report page as a text: whole, small, escaped, and without anything that leaves it."""

import json
import re

import pytest
from tests.unit.cli.report import example

from powertrain_cli.report.document import Report, Timeline
from powertrain_cli.report.page import MAX_BYTES, page

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028'\"&"
HEADINGS = (
    "Power over time",
    "Step time",
    "Time against power",
    "What was tried, in order",
    "Predicted against observed",
    "Energy and time against other modes",
    "Board and software",
)


@pytest.fixture(scope="module")
def whole() -> str:
    return page(example.report())


def test_every_section_is_there_in_order(whole: str) -> None:
    places = [whole.index(f"<h3>{heading}</h3>") for heading in HEADINGS]
    assert places == sorted(places)
    assert whole.index(example.report().summary.replace("'", "&#x27;")) < places[0]


def test_the_largest_report_stays_below_a_megabyte_and_says_that_points_are_missing() -> None:
    # 64 boards are the most that a job may have.
    many = example.report().model_copy(update={"boards": (example.board(),) * 64})
    text = page(many)
    assert len(text.encode()) <= MAX_BYTES
    assert "left out to keep the page small" in text
    assert "Only the first 48 boards are shown" in text
    assert "left out to keep the page small" not in page(example.report())


def test_nothing_in_the_page_names_another_place(whole: str) -> None:
    markup = re.sub(r"<script.*?</script>", "", whole, flags=re.DOTALL)
    assert not re.search(r"\b(src|href|action)\s*=|url\(|@import", markup)
    assert "default-src 'none'" in whole


def test_what_tenants_wrote_is_shown_and_never_run() -> None:
    one = example.board(HOSTILE).model_copy(update={"message": HOSTILE, "reference": HOSTILE})
    text = page(example.report(HOSTILE).model_copy(update={"boards": (one,), "summary": HOSTILE, "limits": HOSTILE}))
    assert "<img src=x" not in text
    assert text.count("<script") == 3  # the data, the library and our own
    assert "&lt;img src=x onerror=alert(2)&gt;" in text


def test_the_embedded_data_is_the_document() -> None:
    report = example.report(HOSTILE)
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page(report), re.DOTALL)
    assert data is not None
    assert Report.model_validate(json.loads(data[1])) == report


def test_a_board_without_a_time_line_says_why() -> None:
    one = example.board().model_copy(update={"timeline": Timeline(source="this agent keeps no history")})
    text = page(example.report().model_copy(update={"boards": (one,)}))
    assert "No time line: this agent keeps no history." in text
    assert 'data-chart="power"' not in text


def test_several_boards_are_shown_against_their_cap() -> None:
    text = page(example.fleet_report())
    assert text.index("All boards of rack-1") < text.index("orin-1 (orin-agx)")
    assert "equal shares" in text


def test_a_prediction_that_says_little_is_marked_instead_of_shown_with_a_margin_as_large_as_itself() -> None:
    board = example.report().boards[0]
    unsure = board.comparisons[0].point.model_copy(update={"step_s": 0.406, "step_pm_s": 0.464})
    other = board.comparisons[0].model_copy(update={"point": unsure})
    changed = board.model_copy(update={"comparisons": (other,)})
    text = page(example.report().model_copy(update={"boards": (changed,)}))
    assert ">≈ 406<" in text
    assert "± 464" not in text
