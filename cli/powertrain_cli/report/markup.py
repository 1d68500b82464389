"""Small pieces of HTML. Plain texts are escaped here and nowhere else; `Html` marks what is markup already."""

from __future__ import annotations

import html
from collections.abc import Sequence


class Html(str):
    """Markup that was built by this module."""

    __slots__ = ()


def text(value: str) -> Html:
    """Return a text as markup: whatever it holds is shown, never run."""
    return Html(html.escape(value, quote=True))


def element(tag: str, *children: str, **attributes: str) -> Html:
    """Return an element; children that are not `Html` are escaped. `class_` stands for class, `_` for a dash."""
    attribute_text = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text(value)}"' for name, value in attributes.items()
    )
    inner = "".join(child if isinstance(child, Html) else text(child) for child in children)
    return Html(f"<{tag}{attribute_text}>{inner}</{tag}>")


def cell(value: str | Html, tag: str = "td", class_: str = "") -> Html:
    """Return a cell of a table."""
    return element(tag, value, class_=class_) if class_ else element(tag, value)


def table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], chosen_row: int | None = None) -> Html:
    """Return a table that scrolls on a narrow screen; a column is its title and the class of its cells."""
    head = element("tr", *(cell(title, "th", class_) for title, class_ in columns))
    body = []
    for place, row in enumerate(rows):
        cells = [cell(value, class_=class_) for value, (_, class_) in zip(row, columns, strict=True)]
        body.append(element("tr", *cells, class_="chosen") if place == chosen_row else element("tr", *cells))
    return element(
        "div",
        element("table", element("thead", head), element("tbody", *body)),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=", ".join(title for title, _ in columns if title),
    )


def definitions(pairs: Sequence[tuple[str, str]]) -> Html:
    """Return a list of names and values; what has no value is left out."""
    return element(
        "dl", *(part for name, value in pairs if value for part in (element("dt", name), element("dd", value)))
    )
