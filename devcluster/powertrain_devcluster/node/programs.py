"""Finds what a real node needs: programs from PATH or from unpacked Debian packages, Kubernetes, the pause image."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from powertrain_devcluster.builds import binaries, debian, images
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import UnsupportedMachineError
from powertrain_devcluster.paths import cache_dir

_ON_PATH = (
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "iptables",
    "ip6tables",
    "iptables-save",
    "conntrack",
)
_CNI_FOLDERS = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
_CNI_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
_PACKAGES = ("containerd", "runc", "containernetworking-plugins", "iptables", "conntrack")
_TABLES = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")
_SYSTEM_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class SystemPrograms:
    """The system's part: runc, packet rules, CNI plugins and the pause image.

    Paths are text, because they travel as JSON to the process inside the namespaces.
    """

    path: str
    libraries: str
    tables: str
    cni: str
    pause: str

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment in which these programs find each other and their libraries."""
        env = {**base, "PATH": self.path}
        if self.libraries:
            env |= {"LD_LIBRARY_PATH": self.libraries, "XTABLES_LIBDIR": self.tables}
        return env

    def program(self, name: str) -> Path:
        """The path of one of the system's programs."""
        path = shutil.which(name, path=self.path)
        if path is None:
            raise UnsupportedMachineError(f"{name} is not on PATH: {self.path}")
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class NodePrograms(SystemPrograms):
    """Kubernetes from its own sources, beside the system's programs."""

    kubernetes: dict[str, str]

    @classmethod
    def find(cls, progress: Progress) -> NodePrograms:
        """Look for everything, and make what can be made."""
        require_machine()
        programs = binaries.resolve([*binaries.CONTROL_PLANE, *binaries.NODE], progress)
        return cls(**system(progress), kubernetes={name: str(path) for name, path in programs.items()})


def system(progress: Progress) -> dict[str, str]:
    """The fields of the system's part: from PATH where all of it is there, else from unpacked packages."""
    pause = str(images.build("pause", progress))
    search = f"{os.environ.get('PATH', '')}:{_SYSTEM_FOLDERS}"
    cni = next((folder for folder in _CNI_FOLDERS if _holds(Path(folder))), None)
    if cni and all(shutil.which(name, path=search) for name in _ON_PATH):
        return {"path": search, "libraries": "", "tables": "", "cni": cni, "pause": pause}
    unpacked = _unpacked(progress)
    libraries = next((unpacked / "usr" / "lib").glob("*-linux-gnu*"))
    return {
        "path": f"{unpacked}/tools:{unpacked}/usr/bin:{unpacked}/usr/sbin:{search}",
        "libraries": f"{unpacked}/libraries",
        "tables": str(libraries / "xtables"),
        "cni": f"{unpacked}/usr/lib/cni",
        "pause": pause,
    }


def require_machine() -> None:
    """Why no real node can run here, in one line."""
    if platform.system() != "Linux":
        raise UnsupportedMachineError(f"a real node needs Linux, this is {platform.system()}")
    if os.geteuid() != 0:
        raise UnsupportedMachineError("a real node needs root (namespaces, mounts, control groups)")
    for tool in ("unshare", "ip", "mount"):
        if shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{_SYSTEM_FOLDERS}") is None:
            raise UnsupportedMachineError(f"a real node needs `{tool}` (packages util-linux, mount and iproute2)")


def _holds(folder: Path) -> bool:
    return all((folder / plugin).is_file() for plugin in _CNI_PLUGINS)


def _unpacked(progress: Progress) -> Path:
    key = hashlib.sha256(" ".join((*_PACKAGES, platform.machine(), platform.release())).encode()).hexdigest()[:12]
    target = cache_dir() / "node" / key
    with staged(target, "the programs of a node", progress) as stage:
        if stage is not None:
            packages = debian.tree(_PACKAGES, stage.with_name("packages"), cache_dir(), progress)
            for entry in packages.iterdir():
                entry.rename(stage / entry.name)
            _link_tools(stage)
    return target


def _link_tools(root: Path) -> None:
    """What a package's installation would have linked: `iptables` itself, and libraries apart from the C library."""
    tools = root / "tools"
    tools.mkdir()
    for name in _TABLES:
        (tools / name).symlink_to("../usr/sbin/xtables-nft-multi")
    debian.link_libraries(root)
