"""Downloads Debian packages and unpacks them into the cache; nothing is installed on the machine."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import ClusterError, MissingToolError

_DEPENDS = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
# Needed to install and configure packages, not to run what they hold.
_INSTALL_ONLY = ("dpkg", "perl", "libperl", "debconf", "cdebconf", "libdebconf", "install-info", "tar", "mawk", "awk")
# A merged /usr, as every Debian of today has.
_MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
# The C library must be the one of the machine that runs the programs.
_NOT_OURS = ("libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "ld-linux", "libgcc_s.so", "libresolv.so")


def require_tools(what: str) -> None:
    """Say in one line that packages cannot be had here."""
    missing = [tool for tool in ("apt-get", "apt-cache", "dpkg-deb", "tar") if shutil.which(tool) is None]
    if missing:
        raise MissingToolError(f"{what}: not on PATH, and cannot be unpacked without {', '.join(missing)} (Debian)")


class Apt:
    """The machine's package lists, or lists of our own in the cache when it has none.

    With an architecture (Debian's name for it) packages are for another machine, whose lists are always our own.
    """

    def __init__(self, cache: Path, progress: Progress, architecture: str = "") -> None:
        self._lists = cache / (f"apt-{architecture}" if architecture else "apt")
        self._progress = progress
        self._options: list[str] = []
        if architecture:
            self._options = ["-o", f"APT::Architecture={architecture}", "-o", f"APT::Architectures={architecture}"]
            self._own_lists()

    def closure(self, packages: Sequence[str]) -> list[str]:
        """The packages and all that they need to run."""
        if not self._knows(packages[0]):
            self._own_lists()
        flags = [f"--no-{kind}" for kind in _DEPENDS]
        output = self._run(["apt-cache", *self._options, "depends", "--recurse", *flags, *packages])
        names = {line.split(":")[0] for line in output.splitlines() if line[:1].isalnum()}
        real = [name for name in names if not name.startswith(_INSTALL_ONLY)]
        lines = self._run(["apt-cache", *self._options, "show", "--no-all-versions", *real]).splitlines()
        available = {line.removeprefix("Package: ") for line in lines if line.startswith("Package: ")}
        return sorted(available.intersection(real))

    def newest(self, meta: str) -> str:
        """The package that a package without files of its own stands for, such as the newest kernel of a series."""
        output = self._run(["apt-cache", *self._options, "depends", meta])
        names = [line.split(":", 1)[1].strip() for line in output.splitlines() if line.strip().startswith("Depends:")]
        if not names:
            raise ClusterError(f"apt-cache: {meta} stands for no package")
        return names[0]

    def download(self, packages: Sequence[str], folder: Path) -> list[Path]:
        """The packages' files."""
        # Without a sandbox user apt needs no permission on our folder, and says nothing about it.
        options = [*self._options, "-o", "APT::Sandbox::User="]
        self._run(["apt-get", *options, "download", *packages], folder)
        return sorted(folder.glob("*.deb"))

    def _knows(self, package: str) -> bool:
        command = ["apt-cache", *self._options, "show", package]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _own_lists(self) -> None:
        self._progress.waiting("package lists")
        lists = self._lists
        for folder in ("lists/partial", "archives/partial"):
            (lists / folder).mkdir(parents=True, exist_ok=True)
        self._options += ["-o", f"Dir::State::lists={lists}/lists", "-o", f"Dir::Cache={lists}"]
        # apt gives up at once where another process updates the same lists.
        with (lists / "update.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._run(["apt-get", *self._options, "-o", "APT::Sandbox::User=", "update"])

    def _run(self, command: Sequence[str], cwd: Path | None = None) -> str:
        result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            lines = [line for line in result.stderr.splitlines() if line.strip()] or ["no message"]
            raise ClusterError(f"{command[0]}: {lines[-1]}")
        return result.stdout


def unpack(archives: Sequence[Path], root: Path) -> None:
    """Lay the packages' files below `root`, which gets a merged /usr."""
    for link, target in _MERGED.items():
        (root / target).mkdir(parents=True, exist_ok=True)
        if not (root / link).is_symlink():
            (root / link).symlink_to(target)
    for archive in archives:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as stream:
            extract = ["tar", "--extract", "--keep-directory-symlink", "--no-same-owner", "--directory", str(root)]
            result = subprocess.run(extract, stdin=stream.stdout, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ClusterError(f"unpacking {archive.name}: {result.stderr.strip().splitlines()[-1]}")


def write_status(archives: Sequence[Path], root: Path) -> None:
    """Note each package's control data where scanners of images without dpkg look for it."""
    folder = root / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        result = subprocess.run(["dpkg-deb", "--field", str(archive)], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ClusterError(f"reading {archive.name}: {result.stderr.strip()}")
        (folder / archive.name.split("_")[0]).write_text(result.stdout, encoding="utf-8")


def tree(packages: Sequence[str], target: Path, cache: Path, progress: Progress, architecture: str = "") -> Path:
    """The packages with all they need, unpacked at `target`; a ready one is returned at once."""
    with staged(target, ", ".join(packages), progress) as stage:
        if stage is not None:
            require_tools(", ".join(packages))
            progress.waiting(f"packages to unpack: {', '.join(packages)}")
            apt = Apt(cache, progress, architecture)
            downloads = stage.with_name("downloads")
            downloads.mkdir()
            archives = apt.download(apt.closure(packages), downloads)
            unpack(archives, stage)
            write_status(archives, stage)
    return target


def link_libraries(root: Path) -> Path:
    """A folder with the libraries of an unpacked tree, apart from the C library, for LD_LIBRARY_PATH."""
    libraries = root / "libraries"
    libraries.mkdir()
    for folder in (root / "usr" / "lib").glob("*-linux-gnu*"):
        for library in folder.glob("*.so*"):
            if not library.name.startswith(_NOT_OURS):
                (libraries / library.name).symlink_to(f"../usr/lib/{folder.name}/{library.name}")
    return libraries
