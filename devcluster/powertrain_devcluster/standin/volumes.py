"""Backs a pod's volumes with folders of this machine; host paths live under the simulated node's own root."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from powertrain_devcluster import kubeconfig
from powertrain_devcluster.standin.spec import Addresses, CannotStartError, field_ref
from powertrain_kube import ApiError, KubeApi, NotFoundError

Object = dict[str, Any]
_TOKEN_S = 24 * 3600
TOKEN_KUBECONFIG = "kubeconfig"


def config_map(rest: KubeApi, namespace: str, name: str) -> dict[str, str]:
    """The data of a ConfigMap; a missing one is a reason not to start."""
    return {str(key): str(value) for key, value in _object(rest, namespace, "configmaps", name).items()}


def secret(rest: KubeApi, namespace: str, name: str) -> dict[str, str]:
    """The decoded data of a Secret."""
    data = _object(rest, namespace, "secrets", name)
    return {key: base64.b64decode(value).decode(errors="surrogateescape") for key, value in data.items()}


def _object(rest: KubeApi, namespace: str, kind: str, name: str) -> Object:
    try:
        data: Object = rest.get(f"/api/v1/namespaces/{namespace}/{kind}/{name}").get("data") or {}
    except NotFoundError as error:
        raise CannotStartError("CreateContainerConfigError", f'{kind[:-1]} "{name}" not found') from error
    except ApiError as error:
        raise CannotStartError("CreateContainerConfigError", str(error)) from error
    return data


@dataclass(frozen=True)
class VolumeHome:
    """What is needed to back one pod's volumes."""

    rest: KubeApi
    pod: Object
    addresses: Addresses
    node_root: Path
    pod_dir: Path

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    def prepare(self) -> dict[str, Path]:
        """Make every volume; returns the folder (or file) of each by the volume's name."""
        return {volume["name"]: self._one(volume) for volume in self.pod["spec"].get("volumes") or []}

    def _one(self, volume: Object) -> Path:
        if "hostPath" in volume:
            return self._host_path(volume["hostPath"])
        folder = self.pod_dir / "volumes" / str(volume["name"])
        folder.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            return folder
        if "projected" in volume:
            for source in volume["projected"].get("sources") or []:
                self._project(source, folder)
            return folder
        kinds = {"configMap": "configMap", "secret": "secret", "downwardAPI": "downwardAPI"}
        kind = next((key for key in kinds if key in volume), None)
        if kind is None:
            choices = ", ".join(["hostPath", "emptyDir", "projected", *kinds])
            raise CannotStartError("FailedMount", f"volume {volume['name']!r} is not one of: {choices}")
        source = dict(volume[kind])
        if kind == "secret":
            source["name"] = source.get("secretName", "")
        self._project({kind: source}, folder)
        return folder

    def _host_path(self, source: Object) -> Path:
        path = self.node_root / str(source["path"]).lstrip("/")
        kind = source.get("type") or ""
        if kind == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        elif kind == "FileOrCreate":
            path.touch(exist_ok=True)
        elif kind == "" and not path.exists():
            # Container runtimes make a missing bind source a directory.
            path.mkdir(parents=True, exist_ok=True)
        elif not path.exists() or (kind == "Directory" and not path.is_dir()):
            raise CannotStartError("FailedMount", f"hostPath type check failed: {source['path']} is not a {kind}")
        return path

    def _project(self, source: Object, folder: Path) -> None:
        if "serviceAccountToken" in source:
            self._token(source["serviceAccountToken"], folder)
        elif "configMap" in source:
            reference = source["configMap"]
            self._files(reference, config_map(self.rest, self.namespace, reference["name"]), folder)
        elif "secret" in source:
            reference = source["secret"]
            self._files(reference, secret(self.rest, self.namespace, reference["name"]), folder)
        elif "downwardAPI" in source:
            for item in source["downwardAPI"].get("items") or []:
                self._write(folder / item["path"], self._downward(item))

    def _downward(self, item: Object) -> str:
        path = item["fieldRef"]["fieldPath"]
        if path in ("metadata.labels", "metadata.annotations"):
            values: Mapping[str, str] = self.pod["metadata"].get(path.split(".")[1]) or {}
            return "\n".join(f'{key}="{value}"' for key, value in sorted(values.items()))
        return field_ref(self.pod, path, self.addresses)

    def _files(self, reference: Object, data: Mapping[str, str], folder: Path) -> None:
        items = reference.get("items") or [{"key": key, "path": key} for key in data]
        for item in items:
            if item["key"] not in data:
                raise CannotStartError("FailedMount", f"references non-existent key: {item['key']}")
            self._write(folder / item["path"], data[item["key"]])

    def _token(self, source: Object, folder: Path) -> None:
        """A token of the pod's own service account, bound to the pod, and a kubeconfig that uses it."""
        metadata = self.pod["metadata"]
        account = self.pod["spec"].get("serviceAccountName") or "default"
        bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        spec: Object = {"expirationSeconds": _TOKEN_S, "boundObjectRef": bound}
        if source.get("audience"):
            spec["audiences"] = [source["audience"]]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer = self.rest.create(f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token", body)
        except ApiError as error:
            raise CannotStartError("FailedMount", f"token of service account {account!r}: {error}") from error
        token = str(answer["status"]["token"])
        self._write(folder / source["path"], token)
        if not source.get("audience"):
            user = {"tokenFile": str(folder / source["path"])}
            text = kubeconfig.render("stand-in", self.rest.server, self.rest.ca_file, user)
            self._write(self.pod_dir / TOKEN_KUBECONFIG, text)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
        path.chmod(0o600)


def mounts(container: Object, volumes: Mapping[str, Path]) -> dict[str, str]:
    """Mount path to backing folder for one container."""
    targets = {}
    for mount in container.get("volumeMounts") or []:
        target = volumes[mount["name"]] / (mount.get("subPath") or "")
        targets[mount["mountPath"]] = str(target).rstrip("/")
    return targets
