"""A real container registry for tests of `powertrain images push`: built into the cache, run on loopback."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import yaml

from powertrain_devcluster.builds import gobuild
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.controlplane.control_plane import free_port
from powertrain_devcluster.paths import cache_dir
from powertrain_devcluster.process import Child, spawn
from powertrain_devcluster.tools.readiness import wait_until_ready

VERSION = "v3.0.0"
_PROGRAM = "registry"
_START_S = 30.0


def program(progress: Progress, env: Mapping[str, str] = os.environ) -> Path:
    """The registry of the distribution project, built when it is not there."""
    target = cache_dir(env) / "registry" / f"{VERSION}-{platform.machine()}"
    spec = gobuild.GoBuild(
        title=f"distribution registry {VERSION}",
        package=f"github.com/distribution/distribution/v3/cmd/registry@{VERSION}",
        output=_PROGRAM,
        ldflags="-s -w",
        minutes="1 to 2 minutes",
    )
    return gobuild.build(spec, target, progress, env) / _PROGRAM


class RegistryServer:
    """A context manager; inside it a registry without login serves plain HTTP at `host`."""

    def __init__(self, executable: Path, root: Path, *, logs: Path) -> None:
        self._executable, self._root, self._logs = executable, root, logs
        self.host = f"127.0.0.1:{free_port()}"
        self._child: Child | None = None

    def __enter__(self) -> RegistryServer:
        config = self._root / "registry.yaml"
        storage = {"filesystem": {"rootdirectory": str(self._root / "storage")}}
        document = {"version": "0.1", "storage": storage, "http": {"addr": self.host}, "log": {"level": "warn"}}
        config.write_text(yaml.safe_dump(document), encoding="utf-8")
        # Otherwise it sends traces to a collector on this machine.
        env = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
        self._child = spawn("registry", [self._executable, "serve", config], self._logs / "registry.log", env=env)
        wait_until_ready("the registry", self._child, f"http://{self.host}/v2/", _START_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._child is not None:
            self._child.kill()
