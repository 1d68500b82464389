"""The guest's file systems: an archive that the kernel starts from, the agent's image, this checkout's code."""

from __future__ import annotations

import hashlib
import os
import py_compile
import shutil
import stat
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from powertrain_devcluster.builds import images
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.kernel import tools
from powertrain_devcluster.kernel.modules import Kernel, sources
from powertrain_devcluster.paths import cache_dir

# The disk with the code has the same size whatever is on it: a machine that goes on must find the disk it knew.
CODE_BYTES = 32 << 20
_GUEST_PYTHON = (3, 11)
# Of the image: what only people at a terminal read.
_UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_FOLDERS = ("proc", "sys", "dev", "tmp", "run", "etc", "var/lib", "guest")


def image_root(progress: Progress) -> Path:
    """A file system with the packages and libraries of the agent's arm64 image, from the cache or packed now."""
    base, libraries = images.foundation(images.recipe("agent", "arm64"), progress)
    key = hashlib.sha256(f"{base.name} {libraries.name} {sys.version_info[:2]}".encode()).hexdigest()[:12]
    target = cache_dir() / "kernel" / f"root-{key}"
    with staged(target, "the guest's root file system", progress) as stage:
        if stage is not None:
            progress.waiting("the guest's root file system")
            tree = stage.with_name("tree")
            for part in (base, libraries):
                shutil.copytree(part, tree, symlinks=True, dirs_exist_ok=True)
            for name in _UNUSED:
                shutil.rmtree(tree / name, ignore_errors=True)
            for name in _FOLDERS:
                (tree / name).mkdir(parents=True, exist_ok=True)
            _precompile(tree)
            options = ("-noappend", "-all-root", "-quiet", "-no-progress", "-comp", "lz4")
            tools.compiler(progress).run("mksquashfs", tree, stage / "root.squashfs", *options)
    return target / "root.squashfs"


def write_code(target: Path) -> None:
    """Write this checkout's part of the agent's image and the guest's programs onto a disk, as an archive."""
    tree = target.with_name("code")
    for source, place in images.recipe("agent", "arm64").files():
        copy = tree / place.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
            copy.chmod(0o755)
    shutil.copytree(sources() / "guest", tree / "guest", ignore=shutil.ignore_patterns("__pycache__"))
    _precompile(tree)
    with tarfile.open(target, "w") as archive:
        archive.add(tree, arcname=".")
    os.truncate(target, CODE_BYTES)
    shutil.rmtree(tree)


def _precompile(tree: Path) -> None:
    """Compile Python files here, where it takes seconds; under emulation it takes minutes."""
    if sys.version_info[:2] != _GUEST_PYTHON:
        return
    for path in tree.rglob("*.py"):
        if path.is_file() and not path.is_symlink():
            inside = f"/{path.relative_to(tree)}"
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(path), dfile=inside, quiet=2, invalidation_mode=mode)


def write_initramfs(target: Path, kernel: Kernel) -> None:
    """Write what the kernel starts from: busybox, the modules and the first process."""
    tree = target.with_name("initramfs-tree")
    shutil.copytree(kernel.root / "modules", tree / "modules")
    for name in ("proc", "sys", "dev", "lower", "upper", "root", "bin"):
        (tree / name).mkdir()
    for source, place in ((kernel.root / "busybox", tree / "bin/busybox"), (sources() / "init", tree / "init")):
        shutil.copy(source, place)
        place.chmod(0o755)
    shutil.copy(sources() / "guest" / "server.py", tree / "server.py")
    with target.open("wb") as out:
        write_archive(out, entries_of(tree))
    shutil.rmtree(tree)


def write_archive(out: IO[bytes], entries: Iterable[tuple[str, int, bytes]]) -> None:
    """Write entries (name, mode, content) in the form that Linux unpacks at boot (cpio, "newc")."""
    for number, (name, mode, content) in enumerate((*entries, ("TRAILER!!!", 0, b"")), start=1):
        encoded = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        out.write(_padded(header + encoded) + _padded(content))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def entries_of(root: Path) -> Iterator[tuple[str, int, bytes]]:
    """Yield a folder's entries, each after the folder that it is in."""
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        content = b""
        if stat.S_ISLNK(mode):
            content = os.fsencode(path.readlink())
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
        yield str(path.relative_to(root)), mode, content
