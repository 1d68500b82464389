"""Waits until a server that was just started answers; one that ends or takes too long is ended, with its last words."""

from __future__ import annotations

import time
import urllib.request

from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.process import Child

_POLL_S = 0.1


def wait_until_ready(title: str, child: Child, url: str, start_s: float) -> None:
    """Return once the address answers with 200."""
    end_s = time.monotonic() + start_s
    while not _answers(url):
        if not child.alive or time.monotonic() > end_s:
            child.kill()
            raise ClusterError(f"{title} is not ready: {child.last_words()}")
        time.sleep(_POLL_S)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return int(response.status) == 200
    except OSError:
        return False
