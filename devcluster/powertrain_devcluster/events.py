"""How a supervisor tells whoever started it what happens: one JSON event per line on standard output."""

from __future__ import annotations

import contextlib
import json
import sys


class Events:
    """Tells whoever started us; somebody who left is no reason to fail."""

    def emit(self, **event: object) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()

    def waiting(self, what: str) -> None:
        self.emit(waiting=what)
