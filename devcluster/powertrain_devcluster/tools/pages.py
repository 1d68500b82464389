"""Pages in a headless Chromium, driven by Playwright (extra `dev`), with a record of what they log and request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from powertrain_devcluster.tools.chromium import Browser

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page

# It opens files of ours only, and root has no sandbox.
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
_TIMEOUT_MS = 30_000


@dataclass
class Tab:
    """A page, the warnings and errors in it, and the addresses that it requested."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, file: Path, until: str) -> None:
        """Load a file and wait until a JavaScript expression is true in it."""
        self.page.goto(file.resolve().as_uri())
        self.page.wait_for_function(until)


@contextmanager
def opened(browser: Browser) -> Iterator[Tab]:
    """Start the browser with one page; the end of the block ends the browser."""
    # Only development needs it: the demo and the cluster run without Playwright.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        program = playwright.chromium.launch(
            executable_path=browser.program, args=list(_FLAGS), env=_environment(browser)
        )
        try:
            yield _tab(program.new_page())
        finally:
            program.close()


def _environment(browser: Browser) -> dict[str, str | float | bool]:
    return {**os.environ, **browser.env}


def _tab(page: Page) -> Tab:
    tab = Tab(page)
    page.set_default_timeout(_TIMEOUT_MS)
    page.on("request", lambda request: tab.requests.append(request.url))
    page.on("pageerror", lambda error: tab.problems.append(str(error)))
    page.on("console", lambda message: _note(tab, message))
    return tab


def _note(tab: Tab, message: ConsoleMessage) -> None:
    if message.type in ("error", "warning", "assert"):
        tab.problems.append(message.text)
