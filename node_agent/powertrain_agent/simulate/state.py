"""What a simulated board remembers, in one file that is replaced as a whole: a killed process loses nothing."""

from __future__ import annotations

import json
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Generic, TypeVar

Value = TypeVar("Value")

STATE_FILE, LOAD_FILE, FAULT_FILE, LOCK_FILE = "sim/state.json", "sim/load.json", "sim/faults.json", "sim/lock"
BEHAVIOUR_FILE = "sim/behaviour.json"


@dataclass(frozen=True)
class BoardState:
    """What was asked of the board since its boot, and where its power was when that last changed."""

    board: str
    preset: int
    seed: int
    boot: int
    requests: Mapping[str, int | str]
    settle_from_w: float = 0.0
    settle_since_s: float = 0.0
    # The change before: where its power was, where it led, and when it was. A sensor that lags still shows that.
    earlier_from_w: float = 0.0
    earlier_to_w: float = 0.0
    earlier_since_s: float = 0.0
    over_current: Mapping[str, int] = field(default_factory=dict)

    @property
    def boot_id(self) -> str:
        """Return the id of this boot; the same seed gives the same ids."""
        return str(uuid.UUID(int=random.Random(f"{self.seed}:{self.boot}").getrandbits(128), version=4))


@dataclass(frozen=True)
class Load:
    """A training that runs on the board until its process ends, its time is up, or (with neither) it is taken away."""

    workload: str
    batch_size: int
    since_s: float
    pid: int | None = None
    until_s: float | None = None  # for a training in another container, whose pid means nothing here

    def alive(self, now_s: float) -> bool:
        """Say whether it still runs (a killed one leaves its announcement behind)."""
        if self.until_s is not None and now_s > self.until_s:
            return False
        return self.pid is None or Path(f"/proc/{self.pid}").exists()


class JsonFile(Generic[Value]):
    """One value in one JSON file: written beside and renamed, read again only when the file changed."""

    def __init__(self, path: Path, decode: Callable[[object], Value], encode: Callable[[Value], object]) -> None:
        self.path = path
        self._name = str(path)
        self._decode = decode
        self._encode = encode
        # One tuple, so that threads that load at the same time never pair one's value with the other's stamp.
        self._cached: tuple[tuple[int, int, int], Value] | None = None

    def load(self) -> Value | None:
        """Return the value, or None where there is no file."""
        try:
            status = os.stat(self._name)  # noqa: PTH116 (looked at for every read of a simulated file)
        except FileNotFoundError:
            self._cached = None
            return None
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        cached = self._cached
        if cached is None or cached[0] != stamp:
            cached = self._cached = (stamp, self._decode(json.loads(self.path.read_text(encoding="utf-8"))))
        return cached[1]

    def save(self, value: Value) -> None:
        """Replace the file; a reader sees the old or the new value, never half of one."""
        beside = f"{self.path}.{os.getpid()}-{threading.get_ident()}"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "w", encoding="utf-8") as handle:  # noqa: PTH123 (the hot path of every simulated write)
            handle.write(json.dumps(self._encode(value)))
        # A file replaced twice within one tick of the file system's clock would look unchanged.
        stamp = time.time_ns()
        os.utime(beside, ns=(stamp, stamp))
        os.replace(beside, self.path)  # noqa: PTH105
        self._cached = None

    def remove(self) -> None:
        """Delete the file if it is there."""
        self.path.unlink(missing_ok=True)


def state_file(root: Path) -> JsonFile[BoardState]:
    """Return the file that holds a board's state."""
    return JsonFile(root / STATE_FILE, lambda raw: BoardState(**raw), vars)  # type: ignore[arg-type]


def load_file(root: Path) -> JsonFile[Load]:
    """Return the file in which a training announces itself."""
    return JsonFile(root / LOAD_FILE, lambda raw: Load(**raw), vars)  # type: ignore[arg-type]


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Let one process at a time change the board."""
    with (root / LOCK_FILE).open("w", encoding="utf-8") as handle:
        flock(handle, LOCK_EX)
        yield
