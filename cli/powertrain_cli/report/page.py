"""Builds the report page: one HTML file that needs nothing else. Every text is escaped, since tenants wrote some of it.

The tables are plain HTML, so that the page reads without scripts; a script draws the charts from the embedded data. A
content security policy with the scripts' hashes keeps anything else from running and any request from leaving.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from powertrain_cli.report import sections
from powertrain_cli.report.document import Report
from powertrain_cli.report.markup import element
from powertrain_cli.report.thinning import thinned

MAX_BYTES = 1_000_000


def page(report: Report) -> str:
    """Return the whole file, at most `MAX_BYTES` long: a report of many boards shows fewer points of each."""
    html = _build(report)
    while len(html.encode()) > MAX_BYTES and (thinner := thinned(report)) != report:
        report = thinner
        html = _build(report)
    return html


def _build(report: Report) -> str:
    scripts = [_asset("uplot.min.js"), _asset("report.js")]
    styles = _asset("uplot.min.css") + _asset("report.css")
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"script-src {' '.join(_hash(each) for each in scripts)}"
    )
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        element("title", f"{report.name}: PowerTrain report"),
        f"<style>{styles}</style>",
    ]
    body = [
        element("header", *sections.head(report)),
        element("main", *sections.fleet(report), *sections.boards(report)),
        element("footer", *sections.foot(report)),
        '<p id="live" class="visually-hidden" aria-live="polite"></p>',
        f'<script id="data" type="application/json">{_embedded(report)}</script>',
        *(f"<script>{each}</script>" for each in scripts),
    ]
    whole = f"<head>\n{_lines(head)}\n</head>\n<body>\n{_lines(body)}\n</body>"
    return f'<!doctype html>\n<html lang="en">\n{whole}\n</html>\n'


def _lines(parts: list[str]) -> str:
    return "\n".join(parts)


def _embedded(report: Report) -> str:
    """Return the data so that no text in it can end the script element."""
    data = report.model_dump_json(exclude_none=True)
    return data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return resources.files("powertrain_cli.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
