"""The programs that build and run the kernel: a cross compiler, the device tree compiler and QEMU, from Debian."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.builds import debian
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import ClusterError, UnsupportedMachineError
from powertrain_devcluster.paths import cache_dir

# The kernel of Debian 12, and the compiler that built it.
SERIES = "6.1"
COMPILER = "gcc-12-aarch64-linux-gnu"


@dataclass(frozen=True)
class Programs:
    """An unpacked tree of packages whose programs can be run."""

    root: Path

    def program(self, name: str) -> Path:
        """The path of one of its programs."""
        return self.root / "usr" / "bin" / name

    def run(self, name: str, *arguments: str | Path) -> str:
        """Run one of them to its end and return what it wrote."""
        words = [str(self.program(name)), *map(str, arguments)]
        result = subprocess.run(words, env=self.environment(), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ClusterError(f"{name}: {(result.stderr.strip() or 'no message').splitlines()[0]}")
        return result.stdout

    def environment(self, base: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The environment in which they find their libraries and each other."""
        libraries = ":".join(filter(None, [str(self.root / "libraries"), base.get("LD_LIBRARY_PATH", "")]))
        return {**base, "PATH": f"{self.root}/usr/bin:{base.get('PATH', '')}", "LD_LIBRARY_PATH": libraries}


def compiler(progress: Progress) -> Programs:
    """What compiles kernel modules and device trees for arm64, and packs file systems."""
    packages = (COMPILER, "make", f"linux-kbuild-{SERIES}", "device-tree-compiler", "squashfs-tools")
    return _programs("compiler", packages, progress)


def emulator(progress: Progress) -> Programs:
    """QEMU for a whole arm64 machine."""
    return _programs("qemu", ("qemu-system-arm",), progress)


def _programs(name: str, packages: Sequence[str], progress: Progress) -> Programs:
    if platform.system() != "Linux":
        raise UnsupportedMachineError(f"the arm64 kernel is built on Linux only, this is {platform.system()}")
    key = hashlib.sha256(" ".join((*packages, platform.machine())).encode()).hexdigest()[:12]
    target = cache_dir() / "kernel" / f"{name}-{key}"
    with staged(target, ", ".join(packages), progress) as stage:
        if stage is not None:
            unpacked = debian.tree(packages, stage.with_name("packages"), cache_dir(), progress)
            for entry in unpacked.iterdir():
                entry.rename(stage / entry.name)
            debian.link_libraries(stage)
    return Programs(target)
