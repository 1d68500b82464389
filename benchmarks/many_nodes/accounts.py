"""A ServiceAccount for operator and agents: pods show a token, which the API server remembers; an administrator's
certificate it verifies anew at every request.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import yaml

from powertrain_kube import ConflictError, KubeApi

Object = dict[str, Any]
NAME = "powertrain-benchmark"
_RBAC = "rbac.authorization.k8s.io"


def token_kubeconfig(rest: KubeApi, namespace: str, kubeconfig: Path, target: Path) -> Path:
    """Make the account and write the way into the cluster for it."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": namespace}}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }
    for path, body in ((accounts, account), (f"/apis/{_RBAC}/v1/clusterrolebindings", binding)):
        with contextlib.suppress(ConflictError):
            rest.create(path, body)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = rest.create(f"{accounts}/{NAME}/token", request)["status"]["token"]
    config: Object = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{**user, "user": {"token": token}} for user in config["users"]]
    target.touch(mode=0o600)
    target.write_text(json.dumps(config), encoding="utf-8")
    return target
