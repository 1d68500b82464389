"""What a process does inside the namespaces of a node: mounts, sysctls, the duties of process 1."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.events import Events
from powertrain_devcluster.node import cgroup as node_cgroup
from powertrain_devcluster.node.config import KUBELET_SYSCTLS, overlay_upper

P = TypeVar("P")
_PLENTY_BYTES = 6 * 1024**3


def enter(module: str, cgroups: Iterable[str]) -> None:
    """Join the node's control groups, then become `MODULE run PLAN`, process 1 of fresh namespaces."""
    node_cgroup.enter([Path(group) for group in cgroups])
    flags = ["--net", "--pid", "--mount", "--cgroup", "--uts", "--ipc", "--propagation", "private", "--mount-proc"]
    os.execvp("unshare", ["unshare", *flags, "--kill-child", sys.executable, "-m", module, "run", sys.argv[2]])


def do(*command: str) -> None:
    """Run one of the system's tools; its complaint becomes the error."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {result.stderr.strip()}")


def overlay(root: Path, folders: Sequence[str], own: Sequence[Path]) -> None:
    """Lay a writable layer of the node's own over the machine's folders that it would write to."""
    for folder in folders:
        if not Path(folder).is_dir() or any(path.is_relative_to(folder) for path in own):
            continue
        upper = overlay_upper(root, folder)
        work = upper.with_name("work")
        for each in (upper, work):
            each.mkdir(parents=True)
        do("mount", "-t", "overlay", "-o", f"lowerdir={folder},upperdir={upper},workdir={work}", "none", folder)


def mount_storage(folder: Path) -> None:
    """Images in memory where there is plenty: thousands of files then need neither be written nor removed."""
    folder.mkdir(parents=True)
    available = next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line)
    if int(available.split()[1]) * 1024 > _PLENTY_BYTES:
        do("mount", "-t", "tmpfs", "-o", f"size={_PLENTY_BYTES // 2},mode=0700", "none", str(folder))


def lay_sysctls(values: Path) -> None:
    """The kubelet insists on values of its own; it finds them in files, and the machine's stay as they are."""
    for name, value in KUBELET_SYSCTLS.items():
        fake = values / name
        fake.parent.mkdir(parents=True, exist_ok=True)
        fake.write_text(value)
        if Path("/proc/sys", name).exists():
            do("mount", "--bind", str(fake), f"/proc/sys/{name}")


def reap_orphans(ours: Callable[[], set[int]]) -> None:
    """Process 1 inherits what its descendants leave behind, and must collect it; from a thread of its own."""
    threading.Thread(target=_reap, args=(ours,), name="reaper", daemon=True).start()


def _reap(ours: Callable[[], set[int]]) -> None:
    while True:
        own_children = ours()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] == "Z" and fields[1] == "1" and int(entry.name) not in own_children:
                    os.waitpid(int(entry.name), os.WNOHANG)
            except (OSError, ValueError):
                continue
        time.sleep(1.0)


def hold(run: Callable[[P, Events], None], plan: P) -> None:
    """Run, then hold what was started until the outside lets go; never returns."""
    lifeline = threading.Thread(target=hold_lifeline, name="lifeline", daemon=True)
    lifeline.start()
    events = Events()
    try:
        run(plan, events)
    except ClusterError as error:
        events.emit(error=str(error))
    except Exception as error:
        events.emit(error=f"{type(error).__name__}: {error}")
    else:
        lifeline.join()
    # Not a return: threads that serve must not hold up the end of the namespace.
    os._exit(0)


def hold_lifeline() -> None:
    """End at once when the outside lets go, also in the middle of the start."""
    sys.stdin.buffer.read()
    os._exit(0)
