"""Debian's arm64 kernel with the modules that a board needs: the kernel's own, Debian's, and those of hack/kernel."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.builds import debian
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.kernel import tools
from powertrain_devcluster.paths import cache_dir, source_root

# Loaded at boot in this order, each after what it depends on.
MODULES = (
    "virtio_mmio",
    "virtio_console",
    "virtio_blk",
    "squashfs",
    "overlay",
    "governor_performance",
    "governor_powersave",
    "governor_userspace",
    "governor_simpleondemand",
    "cpufreq_userspace",
    "cpufreq_powersave",
    "cpufreq_ondemand",
    "cpufreq_conservative",
    "powertrain-clock",
    "cpufreq-dt",
    "powertrain-board",
    "powertrain-devfreq",
    "powertrain-i2c",
    "ina3221",
    "pwm-fan",
)
# Drivers of Linux that Debian does not build for arm64, from its source package.
_FROM_SOURCE = (
    "drivers/hwmon/ina3221.c",
    "drivers/devfreq/governor_performance.c",
    "drivers/devfreq/governor_powersave.c",
    "drivers/devfreq/governor.h",
)
_PACKAGES = ("busybox-static",)
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True)
class Kernel:
    """A folder with `vmlinuz`, `busybox`, and `modules` in the order in which they are loaded."""

    root: Path

    @property
    def image(self) -> Path:
        return self.root / "vmlinuz"

    @property
    def release(self) -> str:
        """What `uname -r` says inside."""
        return (self.root / "release").read_text(encoding="utf-8").strip()


def sources() -> Path:
    """The folder with our modules, the first process and the guest's programs."""
    return source_root() / "hack" / "kernel"


def kernel(progress: Progress) -> Kernel:
    """The kernel from the cache, or downloaded and compiled now (half a minute)."""
    digest = hashlib.sha256(" ".join((tools.SERIES, *MODULES, platform.machine())).encode())
    for file in sorted((sources() / "modules").iterdir()):
        digest.update(file.name.encode() + file.read_bytes())
    target = cache_dir() / "kernel" / f"linux-{tools.SERIES}-{digest.hexdigest()[:12]}"
    with staged(target, f"the arm64 kernel {tools.SERIES}", progress) as stage:
        if stage is not None:
            _build(stage, stage.with_name("work"), progress)
    return Kernel(target)


def _build(stage: Path, work: Path, progress: Progress) -> None:
    debian.require_tools(f"linux {tools.SERIES} for arm64")
    programs = tools.compiler(progress)
    progress.waiting("Debian's arm64 kernel, its headers and its sources")
    root, release, source = _download(work, progress)
    shutil.copy(root / "boot" / f"vmlinuz-{release}", stage / "vmlinuz")
    shutil.copy(root / "usr/bin/busybox", stage / "busybox")
    (stage / "release").write_text(f"{release}\n", encoding="utf-8")
    progress.waiting("the compiler of kernel modules")
    compiled_modules = _compile(work / "modules", root, release, source, programs)
    modules = {path.stem: path for path in (root / "lib/modules").rglob("*.ko")} | compiled_modules
    _collect(stage / "modules", modules)


def _download(work: Path, progress: Progress) -> tuple[Path, str, Path]:
    """The unpacked kernel and headers, the kernel's release, and the archive of its sources."""
    boards, machine = debian.Apt(cache_dir(), progress, "arm64"), debian.Apt(cache_dir(), progress)
    image = boards.newest("linux-image-arm64")
    release = image.removeprefix("linux-image-")
    if not release.startswith(f"{tools.SERIES}."):
        raise ClusterError(f"Debian's arm64 kernel is {release} here, not {tools.SERIES}: the level is for Debian 12")
    common = f"linux-headers-{release.removesuffix('-arm64')}-common"
    downloads, source, root = work / "downloads", work / "source", work / "root"
    for folder in (downloads, source, root):
        folder.mkdir(parents=True)
    debian.unpack(boards.download([image, f"linux-headers-{release}", common, *_PACKAGES], downloads), root)
    machine.closure([f"linux-source-{tools.SERIES}"])
    debian.unpack(machine.download([f"linux-source-{tools.SERIES}"], source), source)
    return root, release, next((source / "usr/src").glob("linux-source-*.tar.xz"))


def _compile(
    folder: Path, root: Path, release: str, source: Path, programs: tools.Programs, env: Mapping[str, str] = os.environ
) -> dict[str, Path]:
    """Compile our modules and those of the source package, with the headers' paths as they are in the cache."""
    shutil.copytree(sources() / "modules", folder)
    _extract(source, folder)
    headers = root / "usr/src" / f"linux-headers-{release}"
    common = root / "usr/src" / f"linux-headers-{release.removesuffix('-arm64')}-common"
    for file in (headers / "Makefile", headers / ".kernelvariables", common / "Makefile"):
        if file.is_file():
            file.write_text(file.read_text().replace("/usr/src/", f"{root}/usr/src/"))
    # The packages link to programs that run on the machine that builds.
    for name in ("scripts", "tools"):
        for base in (headers, common):
            if (base / name).is_symlink():
                (base / name).unlink()
                (base / name).symlink_to(programs.root / "usr/lib" / f"linux-kbuild-{tools.SERIES}" / name)
    command = [str(programs.program("make")), "-C", str(headers), f"M={folder}", "ARCH=arm64", "modules"]
    command += ["CROSS_COMPILE=aarch64-linux-gnu-", "CC=aarch64-linux-gnu-gcc-12", f"-j{os.cpu_count() or 1}"]
    command += ["DEB_BUILD_ARCH=amd64", "DEB_HOST_ARCH=arm64", "DEB_HOST_GNU_TYPE=aarch64-linux-gnu"]
    result = subprocess.run(command, env=programs.environment(env), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if "error" in line.lower()] or result.stderr.splitlines()
        raise ClusterError(f"compiling kernel modules: {(lines or ['no message'])[0]}")
    return {path.stem: path for path in folder.glob("*.ko")}


def _extract(source: Path, folder: Path) -> None:
    """Take the few files that are needed from a large archive, and stop reading where the last one was found."""
    paths = set(_FROM_SOURCE)
    with tarfile.open(source, "r|xz") as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            if name in paths and (file := archive.extractfile(member)) is not None:
                (folder / Path(name).name).write_bytes(file.read())
                paths.remove(name)
                if not paths:
                    return
    raise ClusterError(f"{source.name} has no {', '.join(sorted(paths))}")


def _collect(target: Path, modules: Mapping[str, Path]) -> None:
    """Copy the modules and those they depend on, and write down in which order they load."""
    target.mkdir()
    names = {name.replace("-", "_"): path for name, path in modules.items()}
    order: list[str] = []
    for module in MODULES:
        for name in _with_dependencies(module.replace("-", "_"), names):
            if name not in order:
                order.append(name)
                shutil.copy(names[name], target / f"{name}.ko")
    (target / "order").write_text("\n".join(order) + "\n", encoding="utf-8")


def _with_dependencies(name: str, modules: Mapping[str, Path]) -> Iterable[str]:
    """Yield what a module depends on, then the module; one that is built into the kernel has no file."""
    if name not in modules:
        return
    match = _DEPENDS.search(modules[name].read_bytes())
    for dependency in match[1].decode().split(",") if match else []:
        if dependency:
            yield from _with_dependencies(dependency.replace("-", "_"), modules)
    yield name
