"""Machine: a board on a real arm64 kernel under QEMU, in which a test runs programs.

Booting takes ten seconds of emulation. So each board boots once, up to where the libraries of the agent's image are
loaded; that state is kept in the cache, and a machine goes on from there with the code of this checkout.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from powertrain import devices
from powertrain.devices import Device
from powertrain_devcluster.builds.images import prune
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.kernel import devicetree, files, modules, tools
from powertrain_devcluster.kernel.qemu import TIMEKEEPING, Parts, Qemu
from powertrain_devcluster.paths import cache_dir

TIMEOUT_S = 180.0
# Those that the tests boot.
BOARDS = ("orin-agx-super", "xavier-agx", "orin-nano", "orin-nx-16")


class GuestError(ClusterError):
    """A program inside ended badly; the message holds what it said."""


@dataclass(frozen=True)
class Answer:
    """What a program inside came to: its exit code (negative: the signal that ended it), output and result."""

    code: int
    output: str
    result: Any = None


@dataclass(frozen=True)
class Booted:
    """A board's machine right after its boot: its parts, and the state to go on from."""

    parts: Parts
    state: Path


def prepare(progress: Progress) -> None:
    """Make what the machines of the tests need."""
    for board in BOARDS:
        booted(devices.get(board), progress)


def booted(device: Device, progress: Progress) -> Booted:
    """A board that has booted, from the cache or by booting it now."""
    kernel, root = modules.kernel(progress), files.image_root(progress)
    digest = hashlib.sha256(f"{TIMEKEEPING} {kernel.root.name} {root.parent.name} {device.model_dump_json()}".encode())
    for name in ("init", "guest/server.py"):
        digest.update((modules.sources() / name).read_bytes())
    digest.update(devicetree.additions(device).encode())
    target = cache_dir() / "kernel" / f"{device.name}-{digest.hexdigest()[:12]}"
    parts = Parts(kernel.image, target / "initramfs", target / "board.dtb", root, device.cores)
    with staged(target, f"a machine like {device.name}", progress) as stage:
        if stage is not None:
            progress.waiting(f"the kernel of a machine like {device.name} to boot, once")
            _boot(device, kernel, root, stage, progress)
            prune(target, device.name)
    return Booted(parts, target / "state")


def _boot(device: Device, kernel: modules.Kernel, root: Path, stage: Path, progress: Progress) -> None:
    qemu = tools.emulator(progress)
    tree = devicetree.compile_tree(device, qemu, tools.compiler(progress), stage)
    initramfs = stage / "initramfs"
    files.write_initramfs(initramfs, kernel)
    with tempfile.TemporaryDirectory(prefix="powertrain-kernel-") as folder:
        code = Path(folder) / "code.tar"
        with code.open("wb") as empty:
            empty.truncate(files.CODE_BYTES)
        machine = Qemu(qemu, Parts(kernel.image, initramfs, tree, root, device.cores), code, Path(folder), TIMEOUT_S)
        try:
            machine.guest.receive(TIMEOUT_S)
            machine.save(stage / "state")
        finally:
            machine.close()


class Machine:
    """A context manager: inside it the board's kernel runs, with the agent's image as its root file system."""

    def __init__(self, board: str, progress: Progress) -> None:
        self.device = devices.get(board)
        self._progress = progress
        self._folder = tempfile.TemporaryDirectory(prefix="powertrain-kernel-")
        self._qemu: Qemu | None = None
        # How long the start took, and how much of this machine's processors.
        self.started_s = self.processor_s = 0.0

    def __enter__(self) -> Machine:
        began_s = time.monotonic()
        folder = Path(self._folder.name)
        try:
            boot_files = booted(self.device, self._progress)
            files.write_code(folder / "code.tar")
            self._qemu = Qemu(
                tools.emulator(self._progress),
                boot_files.parts,
                folder / "code.tar",
                folder,
                TIMEOUT_S,
                boot_files.state,
            )
            self._ask({"begin": self.device.tree.l4t_release}, TIMEOUT_S)
        except BaseException:
            self.close()
            raise
        self.started_s = time.monotonic() - began_s
        self.processor_s = self._qemu.processor_s()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Switch the machine off; nothing of it is left."""
        if self._qemu is not None:
            self._qemu.close()
        self._folder.cleanup()

    def call(self, program: str, timeout_s: float = TIMEOUT_S, **arguments: Any) -> Any:
        """Run a function ("module:name" of hack/kernel/guest) in a process of its own and return its result.

        Raises GuestError with its traceback where it fails.
        """
        answer = self.run(program, timeout_s, **arguments)
        if answer.code != 0:
            raise GuestError(f"{program} ended with {answer.code}: {answer.output}")
        return answer.result

    def run(self, program: str, timeout_s: float = TIMEOUT_S, **arguments: Any) -> Answer:
        """Run a function of the guest's programs, whatever it comes to."""
        return self._ask({"call": program, "arguments": arguments}, timeout_s)

    def shell(self, command: str, timeout_s: float = TIMEOUT_S) -> Answer:
        """Run a command line under busybox' sh."""
        return self._ask({"shell": command}, timeout_s)

    def _ask(self, request: dict[str, Any], timeout_s: float) -> Answer:
        if self._qemu is None:
            raise ClusterError("the machine was not started")
        self._qemu.guest.send(request)
        reply = self._qemu.guest.receive(timeout_s)
        answer = Answer(reply["code"], reply["output"], reply.get("result"))
        if "begin" in request and answer.code != 0:
            raise ClusterError(f"the guest can't load this checkout's code: {answer.output}")
        return answer
