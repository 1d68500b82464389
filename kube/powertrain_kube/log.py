"""Log: one JSON object per line, one line per decision, with its reason."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import IO


class Log:
    """Call it with an event and its fields; fields without a value are left out."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr

    def __call__(self, event: str, **fields: object) -> None:
        """Write one line."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        present = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
        self._stream.write(json.dumps({"at": at, "event": event, **present}, ensure_ascii=False, default=str) + "\n")
        self._stream.flush()
