"""Flags and files of k3s on the machines of a cluster, as pure functions of where they live."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.node.config import PAUSE_IMAGE

# The cluster has network namespaces to itself, so these clash with nobody.
GATEWAY = "10.199.0.254"
API_PORT = 6443
DATA = Path("/var/lib/rancher/k3s")
IMAGES = DATA / "agent/images"
# Where k3s and host paths of pods write; the machine's own folders only shine through.
OVERLAID = ("/run", "/var/lib", "/var/log", "/etc", "/opt")
# They would need images of a registry, or plugins that k3s' own build downloads.
_DISABLED = "traefik,servicelb,metrics-server,coredns,local-storage"
_KUBELET = (
    "fail-cgroupv1=false",
    "cgroup-driver=cgroupfs",
    # The disk is the developer's, not the node's: nothing is evicted or collected because it is full.
    "eviction-hard=memory.available<50Mi,nodefs.available<0%,imagefs.available<0%",
    "image-gc-high-threshold=100",
    "image-gc-low-threshold=99",
    "node-status-update-frequency=5s",
)
# Machine-wide connection tracking limits are left alone.
_PROXY = ("conntrack-max-per-core=0", "conntrack-min=0")


@dataclass(frozen=True)
class Machine:
    """One node: its name, whether it is the server, and its place on the network between the machines."""

    name: str
    is_server: bool
    number: int

    @property
    def address(self) -> str:
        return f"10.199.0.{self.number + 10}"

    @property
    def pods(self) -> str:
        """The addresses of its pods; the controller-manager hands out the same, in the order in which nodes join."""
        return f"10.42.{self.number}.0/24"

    @property
    def role(self) -> str:
        return "server" if self.is_server else "agent"


def machines(cluster: str) -> tuple[Machine, Machine]:
    """The server, which is a node too, and a second node."""
    return Machine(f"{cluster}-server", True, 0), Machine(f"{cluster}-agent", False, 1)


def arguments(machine: Machine, server: Machine, kubeconfig: Path) -> list[str]:
    """What k3s is started with; the token is in its environment."""
    common = [machine.role, f"--node-name={machine.name}", f"--node-ip={machine.address}"]
    common += [f"--pause-image={PAUSE_IMAGE}"]
    common += [f"--kubelet-arg={each}" for each in _KUBELET]
    common += [f"--kube-proxy-arg={each}" for each in _PROXY]
    if not machine.is_server:
        return [*common, f"--server=https://{server.address}:{API_PORT}"]
    return [
        *common,
        f"--disable={_DISABLED}",
        # Flannel's plugin is not a Go module; a bridge on each machine and routes between them do the same here.
        "--flannel-backend=none",
        "--disable-network-policy",
        f"--write-kubeconfig={kubeconfig}",
        "--write-kubeconfig-mode=0600",
    ]


def containerd_template(drop_in: Path) -> str:
    """k3s' own template, which finds container runtimes by itself, with one more file."""
    return f'imports = ["{drop_in}"]\n{{{{ template "base" . }}}}\n'


def containerd_drop_in(cni: Path) -> str:
    """A root without CAP_SYS_RESOURCE may not lower a score, and AppArmor's tools need not be there."""
    return f"""version = 3
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["{cni}"]
  conf_dir = "/etc/cni/net.d"
"""


def cni(machine: Machine) -> str:
    """Pods on a bridge of their machine, with addresses of its range."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": machine.pods}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "0.4.0", "name": "powertrain", "plugins": plugins}, indent=2)
