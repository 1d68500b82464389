"""Writes a report as a file and, where asked, shows it in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from powertrain_cli.report.document import Report
from powertrain_cli.report.page import page


def write(report: Report, target: Path) -> None:
    """Write the page, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.part")
    draft.write_text(page(report), encoding="utf-8")
    draft.replace(target)


def show(target: Path) -> bool:
    """Open the page in the user's browser; returns whether there is one."""
    return webbrowser.open(target.resolve().as_uri())
