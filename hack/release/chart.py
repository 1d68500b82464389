"""The chart as one file, its provenance, and `install.yaml` for clusters without Helm."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml
from reproducible_archives import ROOT, sha256, tar_gz

from powertrain_devcluster.builds import binaries
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.tools.helm import Helm

CHART = ROOT / "charts/powertrain"
NAMESPACE = "powertrain-system"
HEAD = f"""# PowerTrain without Helm: kubectl apply --server-side -f install.yaml
# Every node must have the images of this release first: powertrain images import.
# To undo: kubectl delete trainingjobs -A --all, wait until `kubectl get powernodes` shows every board as restored, then
# kubectl delete -f install.yaml. The chart does this by itself, and refuses while a job runs.
apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}}}
"""


def package(out: Path) -> Path:
    """Write the chart's archive, as `helm package` would but without the date of today."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    files = {
        f"{about['name']}/{path.relative_to(CHART)}": path.read_bytes()
        for path in CHART.rglob("*")
        if path.is_file() and path.relative_to(CHART).parts[0] != "ci"
    }
    target = out / f"{about['name']}-{about['version']}.tgz"
    tar_gz(target, files)
    return target


def sign(archive: Path, key: str) -> Path:
    """Write the provenance file of the chart with a key of gpg, for `helm verify`."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    text = yaml.safe_dump(about, sort_keys=False)
    text += f"\n...\nfiles:\n  {archive.name}: sha256:{sha256(archive)}\n"
    target = archive.with_name(f"{archive.name}.prov")
    command = ["gpg", "--batch", "--yes", "--local-user", key, "--digest-algo", "SHA512", "--clearsign"]
    result = subprocess.run(
        [*command, "--output", str(target)], input=text, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise SystemExit(f"gpg can't sign with {key!r}: {result.stderr.strip()}")
    return target


def install_manifest(archive: Path, out: Path, scratch: Path, progress: Progress) -> Path:
    """Render the packaged chart for nodes that have the images, without Helm's hooks."""
    helm = Helm(binaries.helm(progress), scratch)
    where = ("--namespace", NAMESPACE, "--kube-version", "1.30.0", "--no-hooks", "--set", "image.local=true")
    rendered = helm.run("template", "powertrain", str(archive), *where).stdout
    target = out / "install.yaml"
    target.write_text(HEAD + rendered, encoding="utf-8")
    return target
