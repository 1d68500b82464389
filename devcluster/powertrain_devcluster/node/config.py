"""The configuration files of a real node's programs, as pure functions of where the node lives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

# The node has a network namespace to itself, so these clash with nobody.
NODE_ADDRESS = "10.199.0.1"
POD_RANGE = "10.198.0.0/16"
API_PORT = 6443
PAUSE_IMAGE = "docker.io/library/powertrain-pause:dev"
BRIDGE = "powertrain0"

# What a kubelet insists on (pkg/util/sysctl); files with these values are laid over the real ones for the node alone.
KUBELET_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


# Where the programs of a node, and host paths of pods, write; the machine's own folders only shine through.
OVERLAID = ("/run", "/var/lib", "/var/log")


def overlay_upper(root: Path, folder: str) -> Path:
    """Where what the node writes below an overlaid folder is kept."""
    return root / "host" / folder.strip("/").replace("/", "-") / "upper"


@dataclass(frozen=True)
class NodeLayout:
    """Where one node lives; sockets have a folder of their own because their paths must be short."""

    name: str
    root: Path
    run: Path
    cni: Path

    @property
    def socket(self) -> Path:
        return self.run / "containerd.sock"


def containerd(layout: NodeLayout) -> str:
    """containerd 1.6 and later; TOML."""
    return f"""version = 2
root = "{layout.root}/containerd"
state = "{layout.run}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt",
  "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "{layout.socket}"
[ttrpc]
  address = "{layout.socket}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # A root without CAP_SYS_RESOURCE may not lower a score, and AppArmor's tools need not be there.
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{layout.cni}"
    conf_dir = "{layout.root}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def cni(layout: NodeLayout) -> str:
    """Pods on a bridge, with addresses handed out from files of this node."""
    bridge: dict[str, Any] = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(layout.root / "cni-addresses"),
            "ranges": [[{"subnet": POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "0.4.0", "name": "powertrain", "plugins": plugins}, indent=2)


def kubelet(layout: NodeLayout, ca: Path, certificate: Path, key: Path, evict_below: str = "") -> str:
    """Works with control groups v1 and v2 alike, and never evicts for the disk, which is the machine's, not the node's.

    With `evict_below` it evicts pods while less memory is available; as a soft threshold, because a hard one is taken
    away from what pods can request.
    """
    document: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(ca)}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": True,
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{layout.socket}",
        "resolvConf": str(layout.root / "resolv.conf"),
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "volumePluginDir": str(layout.root / "volume-plugins"),
        "podLogsDir": str(layout.root / "pod-logs"),
        "staticPodPath": "",
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
    }
    if evict_below:
        document["evictionSoft"] = {"memory.available": evict_below}
        document["evictionSoftGracePeriod"] = {"memory.available": "0s"}
        document["evictionMaxPodGracePeriod"] = 1
    return yaml.safe_dump(document, sort_keys=False)


def kube_proxy(layout: NodeLayout, kubeconfig: Path) -> str:
    """iptables mode; the machine-wide connection tracking limits are left alone."""
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": layout.name,
        "clusterCIDR": POD_RANGE,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return yaml.safe_dump(document, sort_keys=False)
