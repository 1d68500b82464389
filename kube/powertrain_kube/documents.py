"""Reads the API server's JSON, however deeply somebody has nested an object."""

from __future__ import annotations

import json
import re
from typing import Any

# Far deeper than any object that Kubernetes or this project defines, and far below what makes Python's parser give up.
MAX_DEPTH = 100
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_OPENING, _CLOSING = b"[{", b"]}"


def parse(data: bytes) -> Any:
    """Return the document. Raises ValueError if it is not JSON.

    Go accepts 10,000 levels, Python's parser about 1,000. One object that is nested more deeply must not cost the
    others in its list: what lies deeper than MAX_DEPTH levels is then read as null.
    """
    try:
        return json.loads(data)
    except RecursionError:
        return json.loads(shallow(data, MAX_DEPTH))


def shallow(data: bytes, most: int) -> bytes:
    """Return the document with null in place of every list and object that lies deeper than so many levels."""
    parts: list[bytes] = []
    depth = start = 0
    for match in _STRING_OR_BRACKET.finditer(data):
        first = data[match.start()]
        if first in _OPENING:
            depth += 1
            if depth == most + 1:
                parts += [data[start : match.start()], b"null"]
        elif first in _CLOSING:
            if depth == most + 1:
                start = match.end()
            depth -= 1
    return b"".join([*parts, data[start:]])
