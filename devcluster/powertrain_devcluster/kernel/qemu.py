"""One QEMU process: how it is started, how it is told to save its state, and the line to the guest's server."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.kernel.devicetree import MACHINE, MEMORY_MIB, PROCESSOR
from powertrain_devcluster.kernel.tools import Programs
from powertrain_devcluster.process import Child, spawn

# One instruction takes one nanosecond of the guest's time, and waiting takes none of the machine's: what happens when
# inside does not depend on how busy the machine is, and a training that sleeps is over at once.
TIMEKEEPING = "shift=0,sleep=off"
_POLL_S = 0.02


@dataclass(frozen=True)
class Parts:
    """What a machine is made of; the same parts are needed to go on from a saved state."""

    kernel: Path
    initramfs: Path
    device_tree: Path
    root: Path
    cores: int


class Line:
    """Sends and receives one JSON document a line."""

    def __init__(self, at: Path, child: Child, timeout_s: float) -> None:
        self._child = child
        self._rest = b""
        self._socket = self._connect(at, time.monotonic() + timeout_s)

    def send(self, document: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(document).encode() + b"\n")

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """Return the next document; raises with QEMU's last words where none comes."""
        end_s = time.monotonic() + timeout_s
        self._socket.settimeout(0.5)
        while b"\n" not in self._rest:
            self._check(end_s)
            try:
                received = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            if not received:
                raise ClusterError(f"the machine closed its line: {self._child.last_words()}")
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        document: dict[str, Any] = json.loads(line)
        return document

    def close(self) -> None:
        self._socket.close()

    def _connect(self, at: Path, end_s: float) -> socket.socket:
        while True:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(str(at))
            except OSError:
                line.close()
                self._check(end_s)
                time.sleep(_POLL_S)
            else:
                return line

    def _check(self, end_s: float) -> None:
        if not self._child.alive:
            raise ClusterError(f"QEMU has ended: {self._child.last_words()}")
        if time.monotonic() > end_s:
            raise ClusterError(f"the machine does not answer: {self._child.last_words()}")


class Qemu:
    """A started machine: a fresh one, or one that goes on from a state that was saved."""

    def __init__(
        self, programs: Programs, parts: Parts, code: Path, folder: Path, timeout_s: float, saved: Path | None = None
    ) -> None:
        self._folder, self._timeout_s = folder, timeout_s
        command = _command(programs, parts, code, folder)
        if saved is not None:
            command += ["-incoming", f"exec:cat '{saved}'"]
        self.child = spawn("qemu", command, folder / "console.log", env=programs.environment(os.environ))
        try:
            self.guest = Line(folder / "guest", self.child, timeout_s)
        except BaseException:
            self.child.kill()
            raise

    def save(self, target: Path) -> None:
        """Write the machine's state to a file; the machine stands still from then on."""
        monitor = Line(self._folder / "monitor", self.child, self._timeout_s)
        monitor.receive(self._timeout_s)
        self._tell(monitor, "qmp_capabilities")
        self._tell(monitor, "migrate", uri=f"exec:cat > '{target}'")
        end_s = time.monotonic() + self._timeout_s
        while (state := self._tell(monitor, "query-migrate").get("status")) != "completed":
            if state == "failed" or time.monotonic() > end_s:
                raise ClusterError(f"the machine's state can't be saved: {state}; {self.child.last_words()}")
            time.sleep(_POLL_S)
        monitor.close()

    def processor_s(self) -> float:
        """How much processor time of this machine it has taken."""
        fields = Path(f"/proc/{self.child.popen.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Switch it off at once."""
        self.guest.close()
        self.child.kill()

    def _tell(self, monitor: Line, command: str, **arguments: str) -> dict[str, Any]:
        monitor.send({"execute": command, **({"arguments": arguments} if arguments else {})})
        while True:
            reply = monitor.receive(self._timeout_s)
            if "error" in reply:
                raise ClusterError(f"QEMU refuses {command}: {reply['error'].get('desc')}")
            if "return" in reply:
                returned: dict[str, Any] = reply["return"]
                return returned


def _command(programs: Programs, parts: Parts, code: Path, folder: Path) -> list[str | Path]:
    sockets = [("guest", f"{folder}/guest"), ("monitor", f"{folder}/monitor")]
    command: list[str | Path] = [programs.program("qemu-system-aarch64"), "-L", programs.root / "usr/share/qemu"]
    command += [
        "-M",
        MACHINE,
        "-cpu",
        PROCESSOR,
        "-accel",
        "tcg,thread=single",
        "-icount",
        TIMEKEEPING,
        "-smp",
        str(parts.cores),
    ]
    command += ["-m", str(MEMORY_MIB), "-nographic", "-nodefaults", "-no-reboot", "-serial", "stdio"]
    command += ["-kernel", parts.kernel, "-initrd", parts.initramfs, "-dtb", parts.device_tree]
    command += ["-append", "console=ttyAMA0 quiet panic=-1 init_on_free=1"]
    for name, disk in (("root", parts.root), ("code", code)):
        command += ["-drive", f"id={name},file={disk},format=raw,if=none,readonly=on"]
        command += ["-device", f"virtio-blk-device,drive={name},serial={name}"]
    for name, at in sockets:
        command += ["-chardev", f"socket,id={name},path={at},server=on,wait=off"]
    command += ["-mon", "chardev=monitor,mode=control"]
    return [*command, "-device", "virtio-serial-device", "-device", "virtconsole,chardev=guest"]
