"""Worker processes that end with the process that started them, however that one ends."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import parent_process


def pool(jobs: int) -> ProcessPoolExecutor:
    """Return a pool whose workers do not outlive this process: killed, it can't tell them to stop."""
    return ProcessPoolExecutor(jobs, initializer=_watch_parent)


def _watch_parent() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
