"""Makes what the cluster levels of the tests need before they start: what takes minutes has no place inside a test.

`python -m powertrain_devcluster.builds.prepare PART...` makes parts (all when none is named) with progress on stderr
and, on stdout, a line per part with its seconds. Exit code 0 also where a machine can't have a part: the line says why,
and the tests that need it skip with the same reason.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from powertrain_devcluster.builds import binaries, images, k3s
from powertrain_devcluster.builds.progress import Progress, for_stream
from powertrain_devcluster.errors import (
    BadInputError,
    ClusterError,
    MissingToolError,
    NotPreparedError,
    UnsupportedMachineError,
)
from powertrain_devcluster.kernel import machine
from powertrain_devcluster.node.programs import NodePrograms
from powertrain_devcluster.process import end, give_way, start
from powertrain_devcluster.tools import chromium, kueue, prometheus, registry

_INTERRUPTED = 130
# What is built for arm64 beside this machine's architecture; PyTorch alone would be gigabytes.
FOR_BOARDS = ("operator", "agent", "init", "cli", "training-example")


def _images(progress: Progress) -> None:
    """What pods of the tests start from; the variant with PyTorch, gigabytes, is none of them."""
    for name in ("pause", "init", "operator", "agent", "training-example"):
        images.build(name, progress)


def _arm64(progress: Progress) -> None:
    """What tests of the boards' images need: an emulator, and the packages, libraries and bytecode of each image."""
    images.emulator(progress)
    for name in FOR_BOARDS:
        images.bytecode(images.recipe(name, "arm64"), progress)


PARTS: Mapping[str, Callable[[Progress], object]] = {
    "control-plane": lambda progress: binaries.resolve([*binaries.CONTROL_PLANE, "kubectl"], progress),
    "helm": binaries.helm,
    "node": NodePrograms.find,
    "images": _images,
    "prometheus": prometheus.programs,
    "arm64": _arm64,
    "kueue": kueue.programs,
    "registry": registry.program,
    "k3s": k3s.programs,
    "browser": chromium.browser,
    "kernel": machine.prepare,
}
# Parts that take so long to make that nobody waits for them unasked, with how one knows that they are ready.
LONG: Mapping[str, Callable[[], bool]] = {"k3s": k3s.is_cached}
# Downloads that are unpacked: they mostly wait, while a Go build takes every core.
DOWNLOADS = ("node", "prometheus", "browser", "images", "arm64")


class Ready:
    """A progress for tests: whatever would have to be waited for was to be ready before."""

    def waiting(self, what: str) -> None:
        raise NotPreparedError(f"waiting for {what} inside a test: run `make prepare` first")


def prepare(part: str, progress: Progress) -> str:
    """Make one part; returns why this machine can't have it, or nothing."""
    if part not in PARTS:
        raise BadInputError(f"part {part!r} is not one of: {', '.join(PARTS)}")
    try:
        PARTS[part](progress)
    except (MissingToolError, UnsupportedMachineError) as error:
        return str(error)
    return ""


@contextlib.contextmanager
def beside(parts: Sequence[str], niceness: int = 0) -> Iterator[None]:
    """Let a process of its own begin with these parts meanwhile; whoever needs one then finds it, or waits for it.

    It says nothing: what can't be made there is tried again, and told, by whoever needs it. With a niceness it gives
    way to everything else.
    """
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", "powertrain_devcluster.builds.prepare", *parts]
    popen = start(["nice", "-n", str(niceness), *command], **silent)
    give_way(popen.pid, niceness)
    try:
        yield
    finally:
        end(popen)


def main(parts: Sequence[str]) -> int:
    """Make the parts in their order; the exit code of the first that fails."""
    for part in parts or PARTS:
        began_s = time.monotonic()
        try:
            with for_stream() as progress:
                reason = prepare(part, progress)
        except ClusterError as error:
            sys.stderr.write(f"error: {part}: {error}\n")
            return error.exit_code
        except KeyboardInterrupt:
            sys.stderr.write("interrupted; nothing half made was left behind\n")
            return _INTERRUPTED
        seconds = time.monotonic() - began_s
        outcome = f"not here: {reason}" if reason else f"ready, {seconds:.0f} s"
        sys.stdout.write(f"{part}: {outcome}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
