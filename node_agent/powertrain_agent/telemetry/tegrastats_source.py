"""Power from tegrastats: a parser of its lines, and a source that reads them from the running program."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from typing import IO

from powertrain_agent.hardware.sensors import SUM_OF_RAILS
from powertrain_agent.telemetry.port import Clock, Reading, SourceError, SourceUnavailableError

# A rail is a name followed by present and average power; R32 prints both without a unit, in mW (RAM has one, MB).
_RAIL = re.compile(r"(?<!\S)([A-Z][A-Z0-9_]*) (\d+)(?:mW)?/(\d+)(?:mW)?(?!\S)")
_WHOLE_MODULE = ("VIN", "POM_5V_IN", "VDD_IN")


def parse_rails(line: str) -> dict[str, float]:
    """Return the present watts of each rail in a line; empty for a line without rails."""
    return {match[1]: int(match[2]) / 1000.0 for match in _RAIL.finditer(line)}


def total_w(rails_w: Mapping[str, float], total: str) -> float:
    """Return the module's power: the named rail, or the sum of all; without a name the usual ones are tried."""
    if not total:
        total = next((name for name in _WHOLE_MODULE if name in rails_w), SUM_OF_RAILS)
    if total == SUM_OF_RAILS:
        return sum(rails_w.values())
    if total not in rails_w:
        raise SourceError(f"tegrastats shows no rail {total}; it shows {', '.join(rails_w) or 'none'}")
    return rails_w[total]


class TegrastatsSource:
    """Reads the lines of a running tegrastats; `read` gives the newest one and waits for the first."""

    name = "tegrastats"

    def __init__(
        self,
        lines: Iterable[str],
        total: str = "",
        clock: Clock = time.monotonic,
        stale_s: float = 5.0,
        process: subprocess.Popen[str] | None = None,
    ) -> None:
        self._total = total
        self._clock = clock
        self._stale_s = stale_s
        self._process = process
        self._newest: tuple[float, str] | None = None
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._follow, args=(lines,), name="tegrastats", daemon=True)
        self._thread.start()

    @classmethod
    def start(cls, total: str = "", interval_s: float = 0.1) -> TegrastatsSource:
        """Start the host's program; it must be in the PATH."""
        binary = shutil.which("tegrastats")
        if binary is None:
            raise SourceUnavailableError(
                "tegrastats is not in the PATH; it comes with the host's L4T, mount it or use sysfs"
            )
        command = [binary, "--interval", str(max(1, round(1000 * interval_s)))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        return cls(_lines(process.stdout), total, process=process)

    def read(self) -> Reading:
        """Return the newest line's power."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._newest is not None or self._ended, self._stale_s):
                raise SourceError(f"tegrastats printed no line with rails for {self._stale_s:g} s")
            if self._newest is None:
                raise SourceError("tegrastats ended without a line that has rails")
            at_s, line = self._newest
        age_s = self._clock() - at_s
        if age_s > self._stale_s:
            raise SourceError(f"tegrastats' last line is {age_s:.1f} s old")
        rails_w = parse_rails(line)
        return Reading(at_s, total_w(rails_w, self._total), rails_w)

    def close(self) -> None:
        """End the program that was started."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=5)
        self._thread.join(timeout=5)

    def _follow(self, lines: Iterable[str]) -> None:
        for line in lines:
            if parse_rails(line):
                with self._changed:
                    self._newest = (self._clock(), line)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def _lines(stream: IO[str] | None) -> Iterable[str]:
    if stream is None:
        raise SourceUnavailableError("tegrastats has no output to read")
    with stream:
        yield from stream
