"""The command lines of the control plane's programs, as pure functions of one cluster's layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.controlplane import certificates
from powertrain_devcluster.controlplane.certificates import Authority, KeyPair

SERVICE_RANGE = "10.96.0.0/16"
_SERVICE_ADDRESS = "10.96.0.1"
_API_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ISSUER = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True)
class Credentials:
    """Every key pair that the control plane needs."""

    authority: Authority
    front_proxy: KeyPair
    front_proxy_client: KeyPair
    service_account: KeyPair
    etcd: KeyPair
    api_server: KeyPair
    kubelet_client: KeyPair
    admin: KeyPair
    controller_manager: KeyPair
    scheduler: KeyPair


def issue_credentials(folder: Path, addresses: tuple[str, ...] = ()) -> Credentials:
    """Make all key pairs; `addresses` are those of the API server besides loopback."""
    authority = Authority(folder, "ca")
    front_proxy = Authority(folder, "front-proxy-ca")
    hosts = ("127.0.0.1", _SERVICE_ADDRESS, *addresses, *_API_NAMES)
    return Credentials(
        authority=authority,
        front_proxy=front_proxy.pair,
        front_proxy_client=front_proxy.issue("front-proxy-client", "front-proxy-client"),
        service_account=certificates.service_account_keys(folder),
        etcd=authority.issue("etcd", "etcd", hosts=("127.0.0.1", "localhost")),
        api_server=authority.issue("api-server", "kube-apiserver", hosts=hosts),
        kubelet_client=authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
        admin=authority.issue("admin", "powertrain-admin", "system:masters"),
        controller_manager=authority.issue("controller-manager", "system:kube-controller-manager"),
        scheduler=authority.issue("scheduler", "system:kube-scheduler"),
    )


@dataclass(frozen=True)
class Layout:
    """Where one control plane lives. `node_address` is set when pods and a kubelet share its network."""

    root: Path
    etcd_port: int
    api_port: int
    node_address: str | None = None

    @property
    def kubeconfigs(self) -> Path:
        return self.root / "kubeconfigs"

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def etcd(self) -> str:
        return f"https://127.0.0.1:{self.etcd_port}"


def _flags(options: Mapping[str, object]) -> list[str]:
    return [f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in options.items()]


def etcd(layout: Layout, credentials: Credentials) -> list[str]:
    """One member that forgets everything when the machine does: no write waits for the disk."""
    ca, pair = credentials.authority.pair, credentials.etcd
    tls = {"cert-file": pair.certificate, "key-file": pair.key, "trusted-ca-file": ca.certificate}
    return _flags(
        {
            "name": "powertrain",
            "data-dir": layout.root / "etcd",
            "unsafe-no-fsync": True,
            "listen-client-urls": layout.etcd,
            "advertise-client-urls": layout.etcd,
            "client-cert-auth": True,
            # A single member never dials its peers, so any port serves.
            "listen-peer-urls": "https://127.0.0.1:0",
            "peer-client-cert-auth": True,
            "log-level": "warn",
        }
        | tls
        | {f"peer-{name}": value for name, value in tls.items()}
    )


def _api_server_identity(credentials: Credentials) -> dict[str, object]:
    ca = credentials.authority.pair.certificate
    return {
        "tls-cert-file": credentials.api_server.certificate,
        "tls-private-key-file": credentials.api_server.key,
        "client-ca-file": ca,
        "etcd-cafile": ca,
        "etcd-certfile": credentials.etcd.certificate,
        "etcd-keyfile": credentials.etcd.key,
        "kubelet-certificate-authority": ca,
        "kubelet-client-certificate": credentials.kubelet_client.certificate,
        "kubelet-client-key": credentials.kubelet_client.key,
        "service-account-issuer": _ISSUER,
        "service-account-signing-key-file": credentials.service_account.key,
        "service-account-key-file": credentials.service_account.certificate,
        "requestheader-client-ca-file": credentials.front_proxy.certificate,
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": credentials.front_proxy_client.certificate,
        "proxy-client-key-file": credentials.front_proxy_client.key,
    }


def api_server(layout: Layout, credentials: Credentials) -> list[str]:
    """Loopback only, unless a node shares its network namespace."""
    reach: dict[str, object] = {"bind-address": "127.0.0.1", "endpoint-reconciler-type": "none"}
    if layout.node_address:
        reach = {"bind-address": "0.0.0.0", "advertise-address": layout.node_address}
    return _flags(
        reach
        | {
            "secure-port": layout.api_port,
            "cert-dir": layout.root / "api-server",
            "etcd-servers": layout.etcd,
            "service-cluster-ip-range": SERVICE_RANGE,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": True,
            "kubelet-preferred-address-types": "InternalIP",
            "profiling": False,
        }
        | _api_server_identity(credentials)
    )


def controller_manager(layout: Layout, credentials: Credentials) -> list[str]:
    """All controllers, without an election and without a port."""
    ca = credentials.authority.pair
    return _flags(
        {
            "kubeconfig": layout.kubeconfigs / "controller-manager",
            "leader-elect": False,
            "secure-port": 0,
            "use-service-account-credentials": True,
            # It first makes an account and a token for each controller; at its usual 20 requests a second that is 4 s.
            "kube-api-qps": 200,
            "kube-api-burst": 400,
            # Its default is a folder of the machine that it makes by itself.
            "flex-volume-plugin-dir": layout.root / "volume-plugins",
            "root-ca-file": ca.certificate,
            "service-account-private-key-file": credentials.service_account.key,
            "cluster-signing-cert-file": ca.certificate,
            "cluster-signing-key-file": ca.key,
        }
    )


def scheduler(layout: Layout) -> list[str]:
    """The default profile, without an election and without a port."""
    return _flags({"kubeconfig": layout.kubeconfigs / "scheduler", "leader-elect": False, "secure-port": 0})
