"""Generated blocks between markers in hand-written pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

BLOCK = re.compile(r"<!-- generated: (?P<name>[\w-]+) -->\n.*?<!-- end -->", re.DOTALL)


def fill(text: str, blocks: Mapping[str, Callable[[], str]], page: str) -> str:
    """Return the text with every generated block renewed."""

    def renewed(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in blocks:
            raise KeyError(f"{page}: nothing is generated under the name {name!r}; known: {', '.join(sorted(blocks))}")
        return f"<!-- generated: {name} -->\n\n{blocks[name]().strip()}\n\n<!-- end -->"

    return BLOCK.sub(renewed, text)
