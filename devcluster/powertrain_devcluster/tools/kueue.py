"""A real Kueue for tests of its example: built into the cache, run as a process beside a control plane."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from powertrain_devcluster.builds import gobuild
from powertrain_devcluster.builds.gomodule import GoModule, copy
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.connection import connect
from powertrain_devcluster.controlplane.certificates import Authority
from powertrain_devcluster.controlplane.control_plane import free_port
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.paths import cache_dir
from powertrain_devcluster.process import Child, spawn
from powertrain_devcluster.tools.readiness import wait_until_ready
from powertrain_kube import AwayError, NotFoundError

Object = dict[str, Any]
VERSION = "v0.19.0"
MODULE = "sigs.k8s.io/kueue"
NAMESPACE = "kueue-system"
_TITLE = f"Kueue {VERSION}"
_PROGRAM = "kueue"
_MANIFESTS = "config/components"
_CRDS, _WEBHOOKS = "crd", "webhook"
# Kueue reads certificates for its metrics, also where it serves none, from a folder that only an installation has.
_METRICS_PATH = ('metricsCertPath := "/etc/kueue/metrics/certs"', "metricsCertPath := cfg.Webhook.CertDir")
_START_S = 60.0
_POLL_S = 0.1
_PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


def programs(progress: Progress, env: Mapping[str, str] = os.environ) -> Path:
    """The folder with Kueue's controller and its manifests, built when it is not there."""
    change = hashlib.sha256("".join(_METRICS_PATH).encode()).hexdigest()[:6]
    target = cache_dir(env) / "kueue" / f"{VERSION}-{change}-{platform.machine()}"
    if not _whole(target):
        go = gobuild.require_go(_TITLE, env)
        with staged(target, _TITLE, progress, _whole) as stage:
            if stage is not None:
                _build_into(stage, go, progress, env)
    return target


def _whole(folder: Path) -> bool:
    return (folder / _PROGRAM).is_file() and (folder / _WEBHOOKS).is_dir()


def _build_into(stage: Path, go: Path, progress: Progress, env: Mapping[str, str]) -> None:
    progress.waiting(f"Go to download {_TITLE}")
    source = copy(GoModule(MODULE, VERSION), go, stage.parent, env)
    _replace(source / "cmd" / _PROGRAM / "main.go", *_METRICS_PATH)
    spec = gobuild.GoBuild(
        title=_TITLE,
        directory=source,
        package=f"./cmd/{_PROGRAM}",
        output=_PROGRAM,
        ldflags="-s -w",
        minutes="2 to 4 minutes",
    )
    gobuild.compile_into(spec, stage, go, progress, env)
    for folder in (_CRDS, _WEBHOOKS):
        shutil.copytree(source / _MANIFESTS / folder, stage / folder)


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise ClusterError(f"{_TITLE}: {old!r} is not once in {path.name}")
    path.write_text(text.replace(old, new), encoding="utf-8")


class Kueue:
    """A context manager; inside it Kueue serves its webhooks and queues Jobs of the cluster that are labelled for it.

    Only Jobs are managed, as an installation with `integrations.frameworks: [batch/job]` does.
    """

    def __init__(self, folder: Path, kubeconfig: Path, root: Path, *, logs: Path, env: Mapping[str, str]) -> None:
        self._folder, self._kubeconfig, self._root, self._logs = folder, kubeconfig, root, logs
        self._env = {**env, "KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": NAMESPACE}
        self._webhooks, self._health = free_port(), free_port()
        self._rest = connect(kubeconfig)
        self._child: Child | None = None

    def __enter__(self) -> Kueue:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _start(self) -> None:
        authority = Authority(self._root / "pki", "kueue")
        pair = authority.issue("webhooks", "kueue", hosts=["127.0.0.1"])
        certificates = self._root / "webhooks"
        certificates.mkdir()
        shutil.copyfile(pair.certificate, certificates / "tls.crt")
        shutil.copyfile(pair.key, certificates / "tls.key")
        bundle = base64.b64encode(authority.pair.certificate.read_bytes()).decode()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._rest.apply(f"/api/v1/namespaces/{NAMESPACE}", namespace)
        # Until its webhooks serve, the API server would refuse Kueue's own objects: those come last.
        crds = list(self._crds(bundle))
        for crd in crds:
            self._apply(crd)
        self._wait_served(crds)
        config = self._root / "kueue.yaml"
        config.write_text(yaml.safe_dump(self._configuration(certificates)), encoding="utf-8")
        command = [str(self._folder / _PROGRAM), f"--config={config}", "--feature-gates=VisibilityOnDemand=false"]
        self._child = spawn("kueue", command, self._logs / "kueue.log", env=self._env)
        wait_until_ready("Kueue", self._child, f"http://127.0.0.1:{self._health}/readyz", _START_S)
        for crd in yaml.safe_load_all((self._folder / _WEBHOOKS / "manifests.yaml").read_text(encoding="utf-8")):
            self._apply(self._for_jobs(crd, bundle))

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
        # What nobody serves any more would refuse every Job of the cluster.
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            for each in self._rest.get(_PATHS[kind])["items"]:
                if each["metadata"]["name"].startswith("kueue-"):
                    self._rest.delete(f"{_PATHS[kind]}/{each['metadata']['name']}")
        self._rest.close()

    def _apply(self, body: Object) -> None:
        self._rest.apply(f"{_PATHS[body['kind']]}/{body['metadata']['name']}", body)

    def _crds(self, bundle: str) -> Iterator[Object]:
        """Kueue's CRDs with the conversion that its installation patches into some of them."""
        folder = self._folder / _CRDS
        patches = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in self._patches(folder)]
        conversions = {patch["metadata"]["name"]: patch["spec"]["conversion"] for patch in patches}
        for path in sorted((folder / "bases").glob("*.yaml")):
            crd = yaml.safe_load(path.read_text(encoding="utf-8"))
            if conversion := conversions.get(crd["metadata"]["name"]):
                self._reach(conversion["webhook"]["clientConfig"], bundle)
                crd["spec"]["conversion"] = conversion
            yield crd

    @staticmethod
    def _patches(folder: Path) -> list[Path]:
        patches = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["patches"]
        return [folder / each["path"] for each in patches]

    def _for_jobs(self, configuration: Object, bundle: str) -> Object:
        """The webhooks of Kueue's own objects and of Jobs; the others are for frameworks that are not installed."""
        webhooks = [
            hook
            for hook in configuration["webhooks"]
            if {group for rule in hook["rules"] for group in rule["apiGroups"]} <= {"kueue.x-k8s.io", "batch"}
        ]
        for hook in webhooks:
            self._reach(hook["clientConfig"], bundle)
        name = f"kueue-{configuration['metadata']['name']}"
        return {**configuration, "metadata": {"name": name}, "webhooks": webhooks}

    def _reach(self, client: Object, bundle: str) -> None:
        """Name the process on this machine instead of the Service of an installation."""
        path = client.pop("service")["path"]
        client |= {"url": f"https://127.0.0.1:{self._webhooks}{path}", "caBundle": bundle}

    def _configuration(self, certificates: Path) -> Object:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._webhooks, "certDir": str(certificates)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": ["batch/job"]},
        }

    def _wait_served(self, crds: list[Object]) -> None:
        """Kueue gives up at once where the API server does not know its resources yet."""
        end_s = time.monotonic() + _START_S
        for crd in crds:
            names = {each["name"] for each in crd["spec"]["versions"] if each["served"]}
            while not names <= self._served_versions(crd["spec"]["group"], crd["spec"]["names"]["plural"], names):
                if time.monotonic() > end_s:
                    raise ClusterError(f"{crd['metadata']['name']} is not served after {_START_S:g} s")
                time.sleep(_POLL_S)

    def _served_versions(self, group: str, plural: str, versions: set[str]) -> set[str]:
        """The versions in which the API server tells of a resource."""
        served_versions = set()
        for version in versions:
            with contextlib.suppress(NotFoundError, AwayError):
                resources = self._rest.get(f"/apis/{group}/{version}")["resources"]
                served_versions |= {version for each in resources if each["name"] == plural}
        return served_versions
