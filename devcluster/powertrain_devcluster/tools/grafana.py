"""A real Grafana beside a Prometheus, for looking at dashboards; everybody who reaches it is its admin."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType

from powertrain_devcluster.builds.grafana import PROGRAM
from powertrain_devcluster.controlplane.control_plane import free_port
from powertrain_devcluster.process import Child, spawn
from powertrain_devcluster.tools.readiness import wait_until_ready

_START_S = 120.0


class Grafana:
    """A context manager; inside it the server shows the dashboards of a folder with the data of one Prometheus."""

    def __init__(self, folder: Path, root: Path, dashboards: Path, prometheus_url: str) -> None:
        self._folder, self._root = folder, root
        self._dashboards, self._prometheus_url = dashboards, prometheus_url
        self._port = free_port()
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Grafana:
        self.configure()
        config = self._root / "grafana.ini"
        command = [str(self._folder / PROGRAM), "server", "--homepath", str(self._folder), "--config", str(config)]
        self._child = spawn("grafana", command, self._root / "grafana.log", env=dict(os.environ))
        wait_until_ready("Grafana", self._child, f"{self.url}/api/health", _START_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._child is not None:
            self._child.kill()

    def configure(self) -> None:
        """Write its settings, its data source and where the dashboards are."""
        provisioning = self._root / "provisioning"
        for folder in ("datasources", "dashboards", "plugins", "notifiers", "alerting"):
            (provisioning / folder).mkdir(parents=True, exist_ok=True)
        source = {"name": "Prometheus", "type": "prometheus", "uid": "prometheus", "isDefault": True}
        sources = [{**source, "url": self._prometheus_url, "access": "proxy", "jsonData": {"timeInterval": "2s"}}]
        # JSON is YAML.
        content = {"apiVersion": 1, "datasources": sources}
        (provisioning / "datasources/all.yaml").write_text(json.dumps(content), encoding="utf-8")
        provider = {"name": "PowerTrain", "type": "file", "options": {"path": str(self._dashboards.resolve())}}
        content = {"apiVersion": 1, "providers": [provider]}
        (provisioning / "dashboards/all.yaml").write_text(json.dumps(content), encoding="utf-8")
        (self._root / "grafana.ini").write_text(
            f"[server]\nhttp_addr = 127.0.0.1\nhttp_port = {self._port}\n"
            f"[paths]\ndata = {self._root / 'data'}\nlogs = {self._root}\nprovisioning = {provisioning}\n"
            "[auth.anonymous]\nenabled = true\norg_role = Admin\n"
            "[security]\nangular_support_enabled = false\n"
            "[analytics]\nreporting_enabled = false\ncheck_for_updates = false\ncheck_for_plugin_updates = false\n"
            "[news]\nnews_feed_enabled = false\n",
            encoding="utf-8",
        )
