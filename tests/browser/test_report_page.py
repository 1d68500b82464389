"""The report page in a real headless browser: it draws, answers mouse and keys, and talks to nobody."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.report import example

from powertrain_cli.report.page import page
from powertrain_devcluster.builds.prepare import Ready
from powertrain_devcluster.errors import MissingToolError, NotPreparedError, UnsupportedMachineError
from powertrain_devcluster.tools.chromium import Browser, browser
from powertrain_devcluster.tools.devtools import Page

DRAWN = "document.documentElement.dataset.drawn === 'yes'"
CHART = "document.querySelector('.chart[data-chart={kind}]')"


@pytest.fixture(scope="module")
def program() -> Browser:
    try:
        return browser(Ready())
    except (MissingToolError, UnsupportedMachineError, NotPreparedError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no browser here: {error}")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    pages = {"one": example.report(), "fleet": example.fleet_report(), "hostile": example.report("</script><b>x</b>")}
    for name, report in pages.items():
        (folder / f"{name}.html").write_text(page(report), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


@pytest.fixture(scope="module")
def shared(program: Browser) -> Iterator[Page]:
    with Page(program) as opened:
        yield opened


@pytest.fixture
def tab(shared: Page) -> Page:
    shared.problems.clear()
    shared.requests.clear()
    shared.size(1280, 900)
    shared.media()
    return shared


def middle(tab: Page, kind: str) -> tuple[float, float]:
    """Bring a chart's plot into view and return its middle."""
    tab.evaluate(f"{CHART.format(kind=kind)}.scrollIntoView({{block: 'center'}})")
    box = tab.evaluate(
        f"(() => {{ const b = {CHART.format(kind=kind)}.querySelector('.u-over').getBoundingClientRect();"
        "return [b.x, b.y, b.width, b.height] })()"
    )
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def tip(tab: Page, kind: str) -> str:
    return str(tab.evaluate(f"(t => t.hidden ? '' : t.textContent)({CHART.format(kind=kind)}.querySelector('.tip'))"))


@pytest.mark.parametrize("name", ["one", "fleet", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_draws_all_charts_without_an_error_and_without_a_request(
    tab: Page, files: dict[str, Path], name: str, scheme: str
) -> None:
    tab.media("screen", scheme)
    tab.open(files[name], DRAWN)
    charts, canvases = (tab.evaluate(f"document.querySelectorAll('{each}').length") for each in (".chart", "canvas"))
    assert charts == canvases == (3 if name != "fleet" else 11)
    assert tab.problems == []
    assert set(tab.requests) == {files[name].as_uri()}
    assert tab.evaluate("document.querySelectorAll('h1 b').length") == 0


def test_the_axes_name_their_units_and_the_marks_are_drawn(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    legends = tab.evaluate("[...document.querySelectorAll('.legend')].map(each => each.textContent).join()")
    for mark in ("mode change", "trial", "guard action", "limit change", "chosen", "runner-up", "MAXN"):
        assert mark in legends
    # Pixels in the colour of the guard's mark stand where its mark has to be: at the top, in the middle.
    red = tab.evaluate(
        f"(() => {{ const c = {CHART.format(kind='power')}.querySelector('canvas'), x = c.getContext('2d');"
        "const d = x.getImageData(0, 0, c.width, 40).data; let n = 0;"
        "for (let i = 0; i < d.length; i += 4) n += d[i] === 192 && d[i + 1] === 38 && d[i + 2] === 45; return n })()"
    )
    assert red > 20


def test_hovering_over_a_mark_names_what_happened(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    x, y = middle(tab, "power")  # the guard acted after half of the time
    tab.hover(x, y)
    assert "guard action: 22.3 W over 3 s is above 22 W" in tip(tab, "power")


def test_hovering_over_the_front_names_the_mode(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    x, y = middle(tab, "front")
    for step in range(0, 400, 8):
        tab.hover(x - step, y + 40)
        if tip(tab, "front"):
            break
    assert "ms a step" in tip(tab, "front")
    assert "c/" in tip(tab, "front")


def test_the_arrow_keys_read_the_values_aloud(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    tab.evaluate(f"{CHART.format(kind='power')}.focus()")
    tab.press("End")
    assert "limit 25.0 W" in tip(tab, "power")
    assert tab.evaluate("document.getElementById('live').textContent") == tip(tab, "power")
    tab.press("Escape")
    assert tip(tab, "power") == ""


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(tab: Page, files: dict[str, Path], width: int) -> None:
    tab.size(width, 800)
    tab.open(files["fleet"], DRAWN)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    picture = tab.picture(whole=True)
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">I", picture[16:20])[0] == width


def test_paper_is_light_also_where_the_screen_is_dark(tab: Page, files: dict[str, Path]) -> None:
    tab.media("screen", "dark")
    tab.open(files["one"], DRAWN)
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.media("print", "dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)" != dark
    assert tab.pdf().startswith(b"%PDF")
