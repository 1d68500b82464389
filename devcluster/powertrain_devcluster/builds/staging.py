"""Makes entries of the cache: one maker at a time, and an entry is whole or not there, whatever ends its maker."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.errors import ClusterError, DiskFullError


@contextlib.contextmanager
def staged(
    target: Path, title: str, progress: Progress, whole: Callable[[Path], bool] = Path.exists
) -> Iterator[Path | None]:
    """A folder that becomes `target` when all went well; None when a whole `target` is there already.

    Who finds a whole one takes no lock: it appears by one rename, and readers at the same time are no makers. The
    folder's parent is scratch space that goes at the end, also what a killed maker left of its own. What the
    system refuses while it is made (no space, no permission) becomes one clear line.
    """
    try:
        if whole(target):
            yield None
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f".{target.name}.lock").open("w") as lock:
            _take(lock, title, progress)
            if whole(target):
                yield None
                return
            for remnant in target.parent.glob(f".{target.name}.*/"):
                shutil.rmtree(remnant, ignore_errors=True)
            with _scratch(target) as stage:
                yield stage
                shutil.rmtree(target, ignore_errors=True)
                stage.rename(target)
    except OSError as error:
        raise _refusal(error, title, target.parent) from error


@contextlib.contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        stage = scratch / "stage"
        stage.mkdir()
        yield stage
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _refusal(error: OSError, title: str, cache: Path) -> ClusterError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(f"making {title}: no space left on the disk of {cache}")
    return ClusterError(f"making {title}: {error.filename or cache}: {error.strerror or error}")


def _take(lock: IO[str], title: str, progress: Progress) -> None:
    """The kernel lets go of the lock when its holder dies, so nobody waits for the dead."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress.waiting(f"another process that builds {title}")
        fcntl.flock(lock, fcntl.LOCK_EX)
