"""The parts of a release that need no cluster: locks, archives with the same bytes each time, the one-file plugin."""

from __future__ import annotations

import ast
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import powertrain
from powertrain_devcluster.builds import images

ROOT = Path(__file__).resolve().parents[3]
RELEASE = ROOT / "hack/release"
LOCKS = sorted([*ROOT.glob("images/*/requirements.lock"), RELEASE / "plugin.lock"])
HASHED = re.compile(r"^(\S+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that writes archives, and by it the way to its neighbours."""
    monkeypatch.syspath_prepend(str(RELEASE))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    import reproducible_archives

    return reproducible_archives


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.parent.name)
def test_a_lock_has_hashes_and_the_tested_versions(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    locked = {canonical(name): version for name, version, _ in HASHED.findall(text)}
    assert HASHED.sub("", text).startswith("# Generated")
    assert HASHED.sub("", text).count("\n") == 1
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    tested = {canonical(name): version for name, version in pins.items()}
    assert {name: version for name, version in locked.items() if tested.get(name, version) != version} == {}
    folder = lock.parent if lock.name == "requirements.lock" else ROOT / "images/cli"
    requirements = [
        canonical(each) for each in (folder / "requirements.txt").read_text().splitlines() if each[:1] != "#"
    ]
    assert set(requirements) <= set(locked)


@pytest.mark.parametrize("path", sorted((ROOT / "images").glob("*/Dockerfile")), ids=lambda path: path.parent.name)
def test_a_dockerfile_takes_its_base_by_digest_only(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line.split()[1] for line in lines if line.startswith("FROM")] == ["${BASE}", "${BASE}"]
    assert lines.count("ARG BASE") == 2
    assert any(line.startswith('RUN case "$BASE" in *@sha256:*)') for line in lines)


def test_archives_have_the_same_bytes_whatever_the_files_dates(release: ModuleType, tmp_path: Path) -> None:
    archives = []
    for date in (1_000_000_000, 1_600_000_000):
        folder = tmp_path / str(date)
        (folder / "tree/sub").mkdir(parents=True)
        for name in ("tree/b", "tree/sub/a"):
            (folder / name).write_text(name)
            os.utime(folder / name, (date, date))
        release.tar_gz(folder / "x.tgz", {"b": b"1", "a": b"2"} if date % 7 else {"a": b"2", "b": b"1"})
        release.zip_tree(folder / "tree", folder / "x.zip", b"#!x\n")
        release.gzip_file(folder / "tree/b", folder / "x.gz")
        archives.append([release.sha256(folder / f"x.{kind}") for kind in ("tgz", "zip", "gz")])
    assert archives[0] == archives[1]
    assert zipfile.ZipFile(folder / "x.zip").namelist() == ["b", "sub/a"]


def test_the_chart_s_archive_is_the_chart_without_its_tests(release: ModuleType, tmp_path: Path) -> None:
    import chart

    packed = chart.package(tmp_path)
    assert packed.name == f"powertrain-{powertrain.__version__}.tgz"
    with tarfile.open(packed) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folder = ROOT / "charts/powertrain"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {name for name in files if not name.startswith("ci/")}


def test_artifact_hub_is_told_of_every_resource() -> None:
    about = yaml.safe_load((ROOT / "charts/powertrain/Chart.yaml").read_text(encoding="utf-8"))
    listed = {each["name"] for each in yaml.safe_load(about["annotations"]["artifacthub.io/crds"])}
    assert listed == {
        yaml.safe_load(path.read_text(encoding="utf-8"))["metadata"]["name"] for path in (ROOT / "crds").glob("*.yaml")
    }


def test_an_image_gets_the_tag_that_the_chart_names(release: ModuleType, tmp_path: Path) -> None:
    import container_images

    layer = tmp_path / "layer.tar"
    (tmp_path / "root").mkdir()
    before, after = tmp_path / "before.tar", tmp_path / "after.tar"
    images.write_archive(before, "powertrain-agent:dev", [(layer, images.write_layer(tmp_path / "root", layer))], {})
    container_images.retag(before, after, container_images.reference("agent"))
    with tarfile.open(after) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        assert json.load(manifest)[0]["RepoTags"] == [f"powertrain-agent:{powertrain.__version__}"]
    with tarfile.open(before) as one, tarfile.open(after) as other:
        assert one.getnames() == other.getnames()


def test_every_image_of_the_chart_and_the_examples_is_in_the_release(release: ModuleType) -> None:
    import container_images

    values = yaml.safe_load((ROOT / "charts/powertrain/values.yaml").read_text(encoding="utf-8"))
    repositories = {values[part]["image"]["repository"] for part in ("operator", "gate", "agent")}
    for path in ROOT.glob("examples/**/*.yaml"):
        repositories |= set(re.findall(r"image: (powertrain-[a-z-]+):", path.read_text(encoding="utf-8")))
    assert repositories <= {container_images.reference(name).partition(":")[0] for name in container_images.NAMES}


def test_any_python_3_reads_the_plugin_s_first_file() -> None:
    ast.parse((RELEASE / "plugin_main.py").read_text(encoding="utf-8"), feature_version=(3, 6))


def plugin(folder: Path, architecture: str) -> Path:
    """Write a plugin whose only verb prints where it runs from."""
    path = folder / "kubectl-powertrain"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(RELEASE / "plugin_main.py", "__main__.py")
        archive.writestr("about.txt", f"version=1.2.3\narchitecture={architecture}\nidentity=abc\n")
        archive.writestr("any/powertrain_cli/__init__.py", "")
        archive.writestr("any/powertrain_cli/main.py", "def run():\n    import native\n    print(native.NAME)\n")
        for version in ("cp311", "cp312", "cp313"):
            archive.writestr(f"{version}/native.py", f"NAME = {version!r}\n")
    return path


def run(program: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    env = {"XDG_CACHE_HOME": str(cache), "PATH": os.environ["PATH"]}
    return subprocess.run([sys.executable, "-S", program], env=env, capture_output=True, text=True, check=False)


def test_the_plugin_unpacks_what_its_python_needs_once(tmp_path: Path) -> None:
    here = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    program = plugin(tmp_path, here)
    abi = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for _ in range(2):
        result = run(program, tmp_path / "cache")
        assert (result.stdout, result.returncode) == (f"{abi}\n", 0), result.stderr
    [home] = (tmp_path / "cache/powertrain/kubectl-powertrain").iterdir()
    assert sorted(path.name for path in home.iterdir()) == ["any", abi]


def test_the_plugin_says_what_it_needs_where_it_can_not_run(tmp_path: Path) -> None:
    there = {"x86_64": "arm64", "aarch64": "amd64"}[platform.machine()]
    result = run(plugin(tmp_path, there), tmp_path)
    assert result.returncode == 3
    assert "needs Python 3.11, 3.12 or 3.13 on Linux" in result.stderr
    assert "powertrain-cli:1.2.3" in result.stderr


def test_the_plugin_names_an_old_python(tmp_path: Path) -> None:
    """What JetPack 6 has, as far as the check sees it."""
    here = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    start = "import collections, runpy, sys; sys.argv = sys.argv[1:]; sys.version_info = (3, 10, 12, 'final', 0)\n"
    start += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-S", "-c", start, str(plugin(tmp_path, here))]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 3, result.stderr
    assert "this is Python 3.10 on Linux" in result.stderr
