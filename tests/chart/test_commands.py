"""Every helm and kubectl command of the README and the guides runs on a real API server.

Commands that change something run with `--dry-run=server`, so that nothing is left for other tests. `helm install` is
rendered by the client, because the release of these tests is there already. A few commands need a kubelet or objects of
their own; the list names the test that runs each of them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from powertrain.api.base import API_VERSION
from powertrain_devcluster.builds import binaries
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.tools.helm import Helm

from .conftest import CHART, ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "docs/faq.md",
    ROOT / "docs/troubleshooting.md",
    *(ROOT / "docs/how-to").glob("*.md"),
]
# What people replace, and with what.
NAMES = {
    "NAMESPACE": "default",
    "SOMEBODY": "ana",
    "powernode NODE": "powernode",
    "powerprofile NAME": "powerprofile",
    "dist/powertrain-*.tgz": "CHART",
    "powertrain-*.tgz": "CHART",
    "charts/powertrain": "CHART",
    "CHART": str(CHART),
}
# Commands that need a node's kubelet or a plugin of kubectl, and the test that runs each.
ELSEWHERE = {
    "exec POD_OF_THE_AGENT -- powertrain-agent doctor": "tests/unit/agent/test_doctor_command.py, without a pod",
    "logs job/powertrain-release": "tests/node/test_chart.py",
    "helm rollback powertrain": "tests/node/test_chart.py",
    "monitoring.podMonitor.enabled=true": "test_render.py, with the Prometheus operator's CRDs",
    "kubectl powertrain doctor NODE": "tests/unit/packaging/test_release.py",
    "kubectl apply --server-side -f dist/install.yaml": "the last test of this file",
    "kubectl describe pod": "Kubernetes' own",
    "kubectl label node orin-1": "needs nodes of these names; tests/cluster/test_power_budget.py labels its own",
    "kubectl patch trainingjob my-job": "tests/cluster/test_operator_training_jobs.py, by the same merge patches",
}
CHANGING = ("apply", "create", "delete", "label", "patch", "annotate")
CODE = re.compile(r"^ *```(?:bash|sh|console)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:helm|kubectl) [^`]+)`")


def commands(page: Path) -> Iterator[str]:
    """Return the complete commands of a page; `helm upgrade …` alone names no command."""
    text = page.read_text(encoding="utf-8")
    for block in CODE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            yield from [line.strip().removeprefix("$ ")]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    yield from (" ".join(code.split()) for code in INLINE.findall(prose))


def runnable() -> list[tuple[str, str]]:
    """Return each command once, with its page."""
    pages: dict[str, str] = {}
    for page in PAGES:
        for command in commands(page):
            words = shlex.split(command, comments=True)
            if words[:1] in (["helm"], ["kubectl"]) and len(words) > 2 and "…" not in command:
                pages.setdefault(command, page.name)
    return [(command, page) for command, page in pages.items() if not any(each in command for each in ELSEWHERE)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the manifests of the pages."""
    for page, name in (("README.md", "mobilenet.yaml"), ("docs/how-to/site-budget.md", "shed-3.yaml")):
        [first, *_] = re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        assert yaml.safe_load(first)["apiVersion"] == API_VERSION
        (tmp_path / name).write_text(first, encoding="utf-8")
    (tmp_path / "orin-nano-yolo").mkdir()
    (tmp_path / "orin-nano-yolo/reference.json").write_text("{}", encoding="utf-8")
    return tmp_path


def arguments(command: str) -> list[str]:
    """Return the words of a command, with what people replace, and without a lasting effect."""
    for name, value in NAMES.items():
        command = command.replace(name, value)
    program, *words = shlex.split(command, comments=True)
    if program == "helm":
        return [*words, "--dry-run" + {"install": "=client", "upgrade": "=server"}.get(words[0], "")]
    return [*words, *(["--dry-run=server"] if set(CHANGING) & set(words[:4]) else [])]


def test_every_helm_and_kubectl_command_of_the_guides_runs(
    helm: Helm, control_plane: ControlPlane, release: str, folder: Path
) -> None:
    programs = {"helm": helm.program, "kubectl": binaries.resolve(["kubectl"])["kubectl"]}
    state = {name: str(helm.home) for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    env = {"PATH": os.environ["PATH"], "KUBECONFIG": str(control_plane.kubeconfig), **state}
    commands, failed = runnable(), list[str]()
    for command, page in commands:
        program = str(programs[command.split()[0]])
        result = subprocess.run(
            [program, *arguments(command)], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60
        )
        if result.returncode != 0:
            failed.append(f"{page}: {command}\n    {result.stderr.strip()[-400:]}")
    assert failed == [], "\n".join(failed)
    assert len(commands) > 15, "the pages have more commands than this"


def test_commands_that_run_elsewhere_are_still_in_the_guides() -> None:
    every = [command for page in PAGES for command in commands(page)]
    assert [each for each in ELSEWHERE if not any(each in command for command in every)] == []


def test_an_api_server_takes_the_release_s_install_manifest(
    control_plane: ControlPlane, release: str, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, str(ROOT / "hack/release"), "--only=chart", f"--out={tmp_path}"], check=True)
    kubectl = [str(binaries.resolve(["kubectl"])["kubectl"]), "--kubeconfig", str(control_plane.kubeconfig), "apply"]
    # Helm owns the fields of the installed release; whoever has no Helm has no such conflict.
    options = ["--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename"]
    manifest = tmp_path / "install.yaml"
    took = subprocess.run([*kubectl, *options, str(manifest)], capture_output=True, text=True, check=False)
    assert took.returncode == 0, took.stderr
    objects = [each for each in yaml.safe_load_all(manifest.read_text(encoding="utf-8")) if each]
    assert len(took.stdout.splitlines()) == len(objects) > 20
