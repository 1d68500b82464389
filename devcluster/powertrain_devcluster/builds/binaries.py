"""Finds the programs of a cluster: KUBEBUILDER_ASSETS or PATH, then the cache, then a Go build into the cache."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from powertrain_devcluster.builds import gobuild
from powertrain_devcluster.builds.progress import Progress, Silent
from powertrain_devcluster.paths import cache_dir, source_root

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE = ("kubelet", "kube-proxy")
HELM_VERSION = "v3.22.0"
_BUNDLE = (*CONTROL_PLANE, *NODE, "kubectl")
_OLDEST = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_SOURCES = ("go.mod", "go.sum", "main.go")


def _kubernetes_version(module: Path) -> str:
    match = re.search(r"^\tk8s\.io/kubernetes (v\S+)$", (module / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{module / 'go.mod'} requires no k8s.io/kubernetes")
    return match.group(1)


def _bundle_target(module: Path, cache: Path) -> Path:
    digest = hashlib.sha256(b"\0".join((module / name).read_bytes() for name in _SOURCES)).hexdigest()[:12]
    key = f"{_kubernetes_version(module)}-{digest}-{platform.system().lower()}-{platform.machine()}"
    return cache / "controlplane" / key


def _bundle_build(module: Path, links: Sequence[str]) -> gobuild.GoBuild:
    version = _kubernetes_version(module)
    major, minor = version.removeprefix("v").split(".")[:2]
    stamps = [
        f"-X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    ]
    return gobuild.GoBuild(
        title=f"Kubernetes {version}",
        directory=module,
        package=".",
        output="controlplane",
        ldflags=" ".join(["-s -w", *stamps]),
        links=links,
        minutes="6 to 8 minutes",
    )


def _built_folder(folder: str, links: Sequence[str], progress: Progress | None, env: Mapping[str, str]) -> Path:
    module = source_root() / "hack" / folder
    target = _bundle_target(module, cache_dir(env))
    return gobuild.build(_bundle_build(module, links), target, progress or Silent(), env)


def bundle(progress: Progress | None = None, env: Mapping[str, str] = os.environ) -> Path:
    """The cached folder with every program of the bundle, built when it is not there."""
    return _built_folder("controlplane", _BUNDLE, progress, env)


def oldest(progress: Progress | None = None, env: Mapping[str, str] = os.environ) -> Path:
    """The same for the oldest Kubernetes that the chart supports: what decides and serves; KUBEBUILDER_ASSETS."""
    return _built_folder("controlplane-oldest", _OLDEST, progress, env)


def oldest_version() -> str:
    """The version of the oldest Kubernetes that is tested."""
    return _kubernetes_version(source_root() / "hack" / "controlplane-oldest")


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def resolve(
    names: Sequence[str], progress: Progress | None = None, env: Mapping[str, str] = os.environ
) -> dict[str, Path]:
    """A path for each program; KUBEBUILDER_ASSETS serves the ones it holds, the bundle serves the rest."""
    assets = env.get("KUBEBUILDER_ASSETS")
    programs = {name: Path(assets) / name for name in names if assets and _executable(Path(assets) / name)}
    missing = [name for name in names if name not in programs]
    if missing:
        folder = bundle(progress, env)
        programs |= {name: folder / name for name in missing}
    return programs


def kubectl(progress: Progress | None = None, env: Mapping[str, str] = os.environ) -> Path:
    """kubectl from PATH, KUBEBUILDER_ASSETS or the bundle."""
    on_path = shutil.which("kubectl", path=env.get("PATH"))
    return Path(on_path) if on_path else resolve(["kubectl"], progress, env)["kubectl"]


def helm(progress: Progress | None = None, env: Mapping[str, str] = os.environ) -> Path:
    """Helm 3 from PATH, the cache or a build of its pinned release."""
    on_path = shutil.which("helm", path=env.get("PATH"))
    if on_path:
        return Path(on_path)
    target = cache_dir(env) / "helm" / f"{HELM_VERSION}-{platform.machine()}"
    spec = gobuild.GoBuild(
        title=f"Helm {HELM_VERSION}",
        package=f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}",
        output="helm",
        ldflags=f"-s -w -X helm.sh/helm/v3/internal/version.version={HELM_VERSION}",
        minutes="2 to 3 minutes",
    )
    return gobuild.build(spec, target, progress or Silent(), env) / "helm"
