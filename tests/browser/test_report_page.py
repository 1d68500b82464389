"""The report page in a real headless browser: it draws, answers mouse and keys, and talks to nobody."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.report import example

from powertrain_cli.report.page import page
from powertrain_devcluster.builds.prepare import Ready
from powertrain_devcluster.errors import MissingToolError, NotPreparedError, UnsupportedMachineError
from powertrain_devcluster.tools.chromium import Browser, browser
from powertrain_devcluster.tools.pages import Tab, opened

DRAWN = "document.documentElement.dataset.drawn === 'yes'"
FOCUSED_CHART = "document.activeElement.dataset.chart ?? ''"


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
def shared(program: Browser) -> Iterator[Tab]:
    with opened(program) as tab:
        yield tab


@pytest.fixture
def tab(shared: Tab) -> Tab:
    shared.problems.clear()
    shared.requests.clear()
    shared.page.set_viewport_size({"width": 1280, "height": 900})
    shared.page.emulate_media(media="screen", color_scheme="light")
    return shared


def chart(kind: str) -> str:
    return f".chart[data-chart={kind}]"


def middle(tab: Tab, kind: str) -> tuple[float, float]:
    """Bring a chart's plot into view and return its middle."""
    plot = tab.page.locator(f"{chart(kind)} .u-over").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def tip(tab: Tab, kind: str) -> str:
    tip_box = tab.page.locator(f"{chart(kind)} .tip:not([hidden])").first
    return tip_box.text_content() or "" if tip_box.count() else ""


@pytest.mark.parametrize("name", ["one", "fleet", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_draws_all_charts_without_an_error_and_without_a_request(
    tab: Tab, files: dict[str, Path], name: str, scheme: str
) -> None:
    tab.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    tab.open(files[name], DRAWN)
    charts, canvases = (tab.page.locator(each).count() for each in (".chart", "canvas"))
    assert charts == canvases == (3 if name != "fleet" else 11)
    assert tab.problems == []
    assert set(tab.requests) == {files[name].as_uri()}
    assert tab.page.locator("h1 b").count() == 0


def test_the_axes_name_their_units_and_the_marks_are_drawn(tab: Tab, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    legends = ",".join(tab.page.locator(".legend").all_text_contents())
    for mark in ("mode change", "trial", "guard action", "limit change", "chosen", "runner-up", "MAXN"):
        assert mark in legends
    # Pixels in the colour of the guard's mark stand where its mark has to be: at the top, in the middle.
    red = tab.page.locator(f"{chart('power')} canvas").evaluate(
        "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, 40).data; let n = 0;"
        "for (let i = 0; i < d.length; i += 4) n += d[i] === 192 && d[i + 1] === 38 && d[i + 2] === 45; return n }"
    )
    assert red > 20


def test_hovering_over_a_mark_names_what_happened(tab: Tab, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    x, y = middle(tab, "power")  # the guard acted after half of the time
    tab.page.mouse.move(x, y)
    assert "guard action: 22.3 W over 3 s is above 22 W" in tip(tab, "power")


def test_hovering_over_the_front_names_the_mode(tab: Tab, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    x, y = middle(tab, "front")
    for step in range(0, 400, 8):
        tab.page.mouse.move(x - step, y + 40)
        if tip(tab, "front"):
            break
    assert "ms a step" in tip(tab, "front")
    assert "c/" in tip(tab, "front")


def test_tab_reaches_every_chart_in_its_order_and_shows_the_focus(tab: Tab, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    reached: list[str] = []
    for _ in range(40):
        tab.page.keyboard.press("Tab")
        kind = tab.page.evaluate(FOCUSED_CHART)
        if kind:
            reached.append(kind)
            assert tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert list(dict.fromkeys(reached)) == ["power", "step", "front"]


def test_the_arrow_keys_read_the_values_aloud(tab: Tab, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    tab.page.locator(chart("power")).focus()
    tab.page.keyboard.press("End")
    last = tip(tab, "power")
    assert "limit 25.0 W" in last
    assert tab.page.locator("#live").text_content() == last
    tab.page.keyboard.press("ArrowLeft")
    assert tip(tab, "power") not in ("", last)
    tab.page.keyboard.press("Escape")
    assert tip(tab, "power") == ""


def test_the_front_can_be_walked_mode_by_mode_with_the_keys(tab: Tab, files: dict[str, Path]) -> None:
    tab.open(files["one"], DRAWN)
    tab.page.locator(chart("front")).focus()
    modes = set()
    for _ in range(5):
        tab.page.keyboard.press("ArrowRight")
        match = re.search(r"\d+c/\S+", tip(tab, "front"))
        assert match is not None
        modes.add(match[0])
    assert len(modes) > 1


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(tab: Tab, files: dict[str, Path], width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.open(files["fleet"], DRAWN)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    picture = tab.page.screenshot(full_page=True)
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">I", picture[16:20])[0] == width


def test_paper_is_light_also_where_the_screen_is_dark(tab: Tab, files: dict[str, Path]) -> None:
    tab.page.emulate_media(media="screen", color_scheme="dark")
    tab.open(files["one"], DRAWN)
    background = "getComputedStyle(document.body).backgroundColor"
    dark = tab.page.evaluate(background)
    tab.page.emulate_media(media="print", color_scheme="dark")
    assert tab.page.evaluate(background) == "rgb(255, 255, 255)" != dark
    assert tab.page.pdf(format="A4").startswith(b"%PDF")
