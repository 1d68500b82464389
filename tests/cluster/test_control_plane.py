"""The control plane as a context manager: ports, disks and binaries that are not as one hopes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from powertrain_devcluster.builds import binaries, gobuild, progress
from powertrain_devcluster.controlplane.control_plane import ControlPlane, Settings, free_port
from powertrain_devcluster.errors import ClusterError, MissingToolError, PortTakenError


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def sequence(*ports: int) -> Callable[[], int]:
    """The given ports first, then free ones."""
    first = iter(ports)
    return lambda: next(first, None) or free_port()


@pytest.mark.parametrize("free_before", [0, 1], ids=["the API server's port", "etcd's port"])
def test_a_port_taken_between_choice_and_use_is_replaced(
    cluster_binaries: dict[str, Path], tmp_path: Path, taken_port: int, free_before: int
) -> None:
    settings = Settings(choose_port=sequence(*[free_port()] * free_before, taken_port))
    logs = tmp_path / "logs"
    with ControlPlane(cluster_binaries, tmp_path / "c", logs=logs, settings=settings) as running:
        assert running.ready()
        assert str(taken_port) not in running.server
    assert not (tmp_path / "c").exists()
    # Logs that lie elsewhere outlive the cluster.
    assert {path.stem for path in logs.glob("*.log")} == set(binaries.CONTROL_PLANE)


def test_a_port_that_stays_taken_is_one_clear_line(
    cluster_binaries: dict[str, Path], tmp_path: Path, taken_port: int
) -> None:
    cluster = ControlPlane(cluster_binaries, tmp_path / "c", settings=Settings(choose_port=lambda: taken_port))
    with pytest.raises(PortTakenError, match="its port was taken by another process"), cluster:
        pass
    assert not (tmp_path / "c").exists()


FULL_DISK = """
import sys
from pathlib import Path
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.controlplane.control_plane import ControlPlane, Settings
programs = binaries.resolve(binaries.CONTROL_PLANE)
cluster = ControlPlane(programs, Path(sys.argv[1]) / "c", settings=Settings(min_free_bytes=0))
try:
    cluster.__enter__()
except Exception as error:
    print(error)
print(list(Path(sys.argv[1]).iterdir()))
"""


def test_a_disk_that_fills_up_while_starting_is_one_clear_line(
    cluster_binaries: dict[str, Path], tmp_path: Path
) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system needs the right to mount (root)")
    mounted = f'mount -t tmpfs -o size=16m none {tmp_path} && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", mounted, "sh", sys.executable, "-c", FULL_DISK, str(tmp_path)]
    result = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.splitlines() == [f"{tmp_path}/c: no space left on the disk for the cluster's data", "[]"]


def test_a_program_that_dies_while_starting_is_quoted(cluster_binaries: dict[str, Path], tmp_path: Path) -> None:
    broken = tmp_path / "etcd"
    broken.write_text("#!/bin/sh\necho the reason\nexit 5\n")
    broken.chmod(0o755)
    cluster = ControlPlane({**cluster_binaries, "etcd": broken}, tmp_path / "c")
    with pytest.raises(ClusterError, match="etcd ended with code 5 while starting: the reason"), cluster:
        pass
    assert not (tmp_path / "c").exists()


def scripts(folder: Path, **text: str) -> dict[str, Path]:
    """Programs of a control plane that are shell scripts; what is not given waits for ever."""
    for name in binaries.CONTROL_PLANE:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text.get(name, 'exec sleep 1000')}\n")
        path.chmod(0o755)
    return {name: folder / name for name in binaries.CONTROL_PLANE}


def test_a_death_after_a_taken_port_is_not_taken_for_another(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    etcd = f"[ -e {runs} ] && echo the reason || echo bind: address already in use\necho x >> {runs}\nexit 5"
    cluster = ControlPlane(scripts(tmp_path, etcd=etcd), tmp_path / "c")
    with pytest.raises(ClusterError, match=r"etcd ended with code 5 while starting: the reason$"), cluster:
        pass
    assert runs.read_text() == "x\nx\n"


@pytest.mark.parametrize("outlives", [True, False])
def test_a_start_that_takes_too_long_quotes_the_log_and_names_it_only_if_it_stays(
    tmp_path: Path, outlives: bool
) -> None:
    etcd = "echo first; echo second; echo third; echo fourth; exec sleep 1000"
    logs = tmp_path / "logs" if outlives else None
    # Long enough for a shell to say four words.
    cluster = ControlPlane(
        scripts(tmp_path, etcd=etcd), tmp_path / "c", logs=logs, settings=Settings(start_deadline_s=3.0)
    )
    named = rf" \(log: {tmp_path}/logs/etcd.log\)" if outlives else ""
    with pytest.raises(ClusterError, match=rf"^gave up waiting for etcd: second \| third \| fourth{named}$"), cluster:
        pass
    assert not (tmp_path / "c").exists()


def fake(folder: Path, *names: str) -> None:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def test_kubebuilder_assets_serve_the_programs_they_hold(cluster_binaries: dict[str, Path], tmp_path: Path) -> None:
    fake(tmp_path / "assets", "etcd", "kube-apiserver")
    programs = binaries.resolve(binaries.CONTROL_PLANE, env={**_env(), "KUBEBUILDER_ASSETS": str(tmp_path / "assets")})
    assert programs["etcd"] == tmp_path / "assets" / "etcd"
    assert programs["kube-scheduler"].parent == binaries.bundle()


def test_kubectl_and_helm_come_from_the_path_first(tmp_path: Path) -> None:
    fake(tmp_path / "bin", "kubectl", "helm")
    env = {**_env(), "PATH": str(tmp_path / "bin")}
    assert binaries.kubectl(env=env) == tmp_path / "bin" / "kubectl"
    assert binaries.helm(env=env) == tmp_path / "bin" / "helm"


def test_without_go_and_without_a_cache_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gobuild, "find_go", lambda env: None)
    with pytest.raises(MissingToolError, match=r"install Go 1\.26 or newer"):
        binaries.resolve(binaries.CONTROL_PLANE, env={"XDG_CACHE_HOME": str(tmp_path), "PATH": ""})


def test_a_failed_build_says_why_in_one_line(tmp_path: Path) -> None:
    fake(tmp_path / "bin", "go")
    version = 'if [ "$1" = version ]; then echo go version go1.26.0 linux/amd64; exit; fi'
    (tmp_path / "bin" / "go").write_text(f"#!/bin/sh\n{version}\necho 'main.go:3: no such thing' >&2\nexit 1\n")
    env = {**_env(), "PATH": f"{tmp_path / 'bin'}:{_env()['PATH']}"}
    spec = gobuild.GoBuild("thing", ".", "thing", "", directory=tmp_path)
    with pytest.raises(ClusterError, match=r"building thing failed: main\.go:3: no such thing"):
        gobuild.build(spec, tmp_path / "cache" / "thing", progress.Silent(), env)
    assert not (tmp_path / "cache" / "thing").exists()


def _env() -> dict[str, str]:
    return dict(os.environ)
