"""Builds container images without Docker or a registry: docker-archives, cached by their content.

`python -m powertrain_cli.cluster.images NAME OUT.tar` writes one; images/README.md says what an image is made of.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from powertrain_cli.cluster import debian, gobuild
from powertrain_cli.cluster.errors import BadInputError, ClusterError
from powertrain_cli.cluster.paths import cache_dir, source_root
from powertrain_cli.cluster.progress import Lines, Progress

TAG = "dev"
_FRESH_S = 3600.0
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_SKIPPED = shutil.ignore_patterns("__pycache__", "*.pyc", ".mypy_cache", ".pytest_cache")


@dataclass(frozen=True)
class Recipe:
    """The files of one image's folder."""

    name: str
    folder: Path
    checkout: Path

    @property
    def reference(self) -> str:
        return f"powertrain-{self.name}:{TAG}"

    def packages(self) -> list[str]:
        return _entries(self.folder / "packages.txt")

    def files(self) -> list[tuple[Path, str]]:
        pairs = [line.split() for line in _entries(self.folder / "files.txt")]
        return [(self.checkout / source, target) for source, target in pairs]

    def key(self) -> str:
        """Changes with whatever goes into the image from the checkout."""
        return self._digest(self.folder, self.checkout / "constraints.txt", *(source for source, _ in self.files()))

    def library_key(self) -> str:
        """Changes with what the install script reads."""
        return self._digest(
            self.folder / "install.sh", self.folder / "requirements.txt", self.checkout / "constraints.txt"
        )

    def _digest(self, *inputs: Path) -> str:
        digest = hashlib.sha256(platform.machine().encode())
        for path in sorted({file for each in inputs for file in _walk(each)}):
            digest.update(f"{path.relative_to(self.checkout)}\0".encode() + path.read_bytes())
        return digest.hexdigest()[:16]


def _entries(path: Path) -> list[str]:
    if not path.is_file():
        return []
    lines = (line.split("#", 1)[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def _walk(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return (file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def recipe(name: str) -> Recipe:
    """The image of that name; says which there are."""
    checkout = source_root()
    known = sorted(path.parent.name for path in (checkout / "images").glob("*/*") if path.name in _MAIN_FILES)
    if name not in known:
        raise BadInputError(f"image {name!r} is not one of: {', '.join(dict.fromkeys(known))}")
    return Recipe(name, checkout / "images" / name, checkout)


_MAIN_FILES = ("install.sh", "main.go")


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same tree gives the same bytes, whoever builds it and when."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def write_layer(root: Path, layer: Path) -> str:
    """Write the tree as a layer; returns its diff id."""
    with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            archive.add(path, arcname=str(path.relative_to(root)), recursive=False, filter=_plain)
    with layer.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def write_archive(out: Path, reference: str, layers: Sequence[tuple[Path, str]], config: Mapping[str, object]) -> None:
    """Join layers and configuration to a docker-archive."""
    document = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [diff_id for _, diff_id in layers]},
    }
    body = json.dumps(document).encode()
    names = [f"{diff_id.removeprefix('sha256:')}/layer.tar" for _, diff_id in layers]
    config_name = f"{hashlib.sha256(body).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": names}]
    with tarfile.open(out, "w") as archive:
        for (layer, _), name in zip(layers, names, strict=True):
            archive.add(layer, arcname=name, filter=_plain)
        for name, data in ((config_name, body), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def build(name: str, progress: Progress) -> Path:
    """The image's archive in the cache, made when its content changed."""
    image = recipe(name)
    target = cache_dir() / "images" / f"{name}-{image.key()}"
    with debian.staged(target) as stage:
        if stage is not None:
            progress.waiting(f"image {image.reference}")
            with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=target.parent) as scratch:
                builder = _build_program if (image.folder / "main.go").is_file() else _build_python
                builder(image, Path(scratch), stage / "image.tar", progress)
            _prune(target, name)
    return target / "image.tar"


def _build_program(image: Recipe, scratch: Path, out: Path, progress: Progress) -> None:
    """One static Go program and nothing else."""
    root = scratch / "root"
    spec = gobuild.GoBuild(image.reference, ".", image.name, "-s -w", directory=image.folder)
    gobuild.build(spec, root, progress)
    layer = scratch / "layer.tar"
    write_archive(out, image.reference, [(layer, write_layer(root, layer))], {"Entrypoint": [f"/{image.name}"]})


def _build_python(image: Recipe, scratch: Path, out: Path, progress: Progress) -> None:
    """Debian packages, libraries, the checkout's files: three layers, from the one that changes least."""
    packages = image.packages()
    key = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:16]
    base = debian.tree(packages, cache_dir() / "images" / f"base-{key}", cache_dir(), progress)
    files = scratch / "files"
    for source, target in image.files():
        place = files / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=_SKIPPED)
        else:
            shutil.copy(source, place)
    layers = []
    for index, tree in enumerate((base, _libraries(image, progress), files)):
        layer = scratch / f"layer{index}.tar"
        layers.append((layer, write_layer(tree, layer)))
    config = {
        "Entrypoint": [f"/usr/local/bin/powertrain-{image.name}"],
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"],
    }
    write_archive(out, image.reference, layers, config)


def _libraries(image: Recipe, progress: Progress) -> Path:
    target = cache_dir() / "images" / f"libraries-{image.name}-{image.library_key()}"
    with debian.staged(target) as stage:
        if stage is not None:
            progress.waiting(f"libraries of {image.reference}")
            install = ["sh", str(image.folder / "install.sh"), str(image.checkout), str(stage)]
            env = {**os.environ, "PIP_PYTHON": sys.executable}
            done = subprocess.run(install, env=env, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                last = (done.stderr.strip() or "no message").splitlines()[-1]
                raise ClusterError(f"{image.name}/install.sh: {last}")
    return target


def _prune(target: Path, name: str) -> None:
    """Archives of earlier contents go, unless somebody may still be reading a fresh one."""
    for other in target.parent.glob(f"{name}-*"):
        if other != target and time.time() - other.stat().st_mtime > _FRESH_S:
            shutil.rmtree(other, ignore_errors=True)


def main() -> None:
    """Write one image to a file."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m powertrain_cli.cluster.images NAME OUT.tar")
    try:
        shutil.copy(build(sys.argv[1], Lines()), sys.argv[2])
    except ClusterError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
