"""A real Prometheus for tests and demos: Debian's, unpacked into the cache, scraping what it is given."""

from __future__ import annotations

import json
import os
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from powertrain_devcluster.builds import debian
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.controlplane.control_plane import free_port
from powertrain_devcluster.paths import cache_dir
from powertrain_devcluster.process import Child, spawn
from powertrain_devcluster.tools.readiness import wait_until_ready

_PACKAGE = "prometheus"
_START_S = 30.0


def programs(progress: Progress) -> Path:
    """The folder with prometheus and promtool, downloaded and unpacked when it is not there."""
    return debian.tree([_PACKAGE], cache_dir() / "prometheus", cache_dir(), progress) / "usr/bin"


@dataclass(frozen=True)
class Target:
    """One process to scrape, with the labels that the chart's monitors would give it."""

    address: str
    labels: Mapping[str, str]


class Prometheus:
    """A context manager; inside it the server scrapes its targets, and what `jobs` find, and evaluates its rules."""

    def __init__(
        self,
        binaries: Path,
        root: Path,
        targets: Sequence[Target],
        rules: Sequence[Path] = (),
        interval_s: float = 1.0,
        env: Mapping[str, str] | None = None,
        jobs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._binaries, self._root, self._interval_s = binaries, root, interval_s
        self._env = dict(os.environ if env is None else env)
        self._targets, self._rules, self._jobs = targets, rules, jobs
        self._address = f"127.0.0.1:{free_port()}"
        self._child: Child | None = None

    def __enter__(self) -> Prometheus:
        self._root.mkdir(parents=True, exist_ok=True)
        config = self._root / "prometheus.yaml"
        config.write_text(yaml.safe_dump(self._config()), encoding="utf-8")
        command = [str(self._binaries / "prometheus"), f"--config.file={config}"]
        command += [f"--storage.tsdb.path={self._root / 'data'}", f"--web.listen-address={self._address}"]
        self._child = spawn("prometheus", command, self._root / "prometheus.log", env=self._env)
        wait_until_ready("Prometheus", self._child, f"http://{self._address}/-/ready", _START_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._child is not None:
            self._child.kill()

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://{self._address}"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query: one entry per series."""
        series: list[dict[str, Any]] = self._get("query", query=expression)["data"]["result"]
        return series

    def alerts(self, state: str = "firing") -> dict[str, dict[str, str]]:
        """The labels of alerts in a state, by their name."""
        active = self._get("alerts")["data"]["alerts"]
        return {each["labels"]["alertname"]: each["labels"] for each in active if each["state"] == state}

    def names(self) -> set[str]:
        """Every metric name that was scraped."""
        return set(self._get("label/__name__/values")["data"])

    def _config(self) -> dict[str, Any]:
        interval = f"{self._interval_s:g}s"
        static = [{"targets": [each.address], "labels": dict(each.labels)} for each in self._targets]
        job = {"job_name": "powertrain", "honor_labels": True, "static_configs": static}
        return {
            "global": {"scrape_interval": interval, "evaluation_interval": interval, "scrape_timeout": interval},
            "rule_files": [str(path) for path in self._rules],
            "scrape_configs": [*([job] if static else []), *map(dict, self._jobs)],
        }

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as response:
            document: dict[str, Any] = json.load(response)
        return document
