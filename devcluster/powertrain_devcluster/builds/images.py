"""Builds container images without Docker or a registry: docker-archives, cached by their content.

`python -m powertrain_devcluster.builds.images NAME OUT.tar [amd64|arm64]` writes one; see images/README.md.
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
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from powertrain import __version__
from powertrain_devcluster.builds import debian, gobuild
from powertrain_devcluster.builds.progress import Lines, Progress
from powertrain_devcluster.builds.staging import staged
from powertrain_devcluster.errors import BadInputError, ClusterError
from powertrain_devcluster.paths import cache_dir, source_root

TAG = "dev"
_FRESH_S = 3600.0
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MAIN_FILES = ("install.sh", "main.go")
# What every image with Python is made by.
_SHARED = ("python.sh", "compile.py")
_SKIPPED = shutil.ignore_patterns("__pycache__", "*.pyc", ".mypy_cache", ".pytest_cache")


@dataclass(frozen=True)
class Recipe:
    """The files of one image's folder."""

    name: str
    folder: Path
    checkout: Path
    machine: str = platform.machine()

    @property
    def foreign(self) -> str:
        """Debian's name of the architecture, where it is not this machine's."""
        return "" if self.machine == platform.machine() else _ARCHITECTURES[self.machine]

    @property
    def label(self) -> str:
        """What the image is called in the cache."""
        return f"{self.name}.{self.foreign}" if self.foreign else self.name

    @property
    def archive(self) -> Path:
        """Where the image is once it was built."""
        return cache_dir() / "images" / f"{self.label}-{self.key()}" / "image.tar"

    @property
    def reference(self) -> str:
        about = self.about()
        return f"{about.get('repository', f'powertrain-{self.name}')}:{TAG}{about.get('tag_suffix', '')}"

    def about(self) -> dict[str, str]:
        """What the image says about itself."""
        path = self.folder / "image.toml"
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def packages(self) -> list[str]:
        return _entries(self.folder / "packages.txt")

    def files(self) -> list[tuple[Path, str]]:
        pairs = [line.split() for line in _entries(self.folder / "files.txt")]
        return [(self.checkout / source, target) for source, target in pairs]

    def key(self) -> str:
        """Changes with whatever goes into the image from the checkout."""
        shared = _SHARED if (self.folder / "install.sh").is_file() else ()
        ours = (self.checkout / "images" / name for name in shared)
        return self._digest(self.folder, *ours, *(source for source, _ in self.files()))

    def library_key(self) -> str:
        """Changes with what the install script reads."""
        return self._digest(
            self.folder / "install.sh", self.folder / "requirements.lock", self.checkout / "images" / "python.sh"
        )

    def _digest(self, *inputs: Path) -> str:
        digest = hashlib.sha256(self.machine.encode())
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


def names() -> list[str]:
    """Every image of the checkout."""
    folders = (source_root() / "images").iterdir()
    return sorted(path.name for path in folders if any((path / file).is_file() for file in _MAIN_FILES))


def recipe(name: str, architecture: str = "") -> Recipe:
    """The image of that name, for this machine or an architecture; says which there are."""
    machines = {theirs: machine for machine, theirs in _ARCHITECTURES.items()}
    if architecture and architecture not in machines:
        raise BadInputError(f"architecture {architecture!r} is not one of: {', '.join(machines)}")
    if name not in names():
        raise BadInputError(f"image {name!r} is not one of: {', '.join(names())}")
    machine = machines[architecture] if architecture else platform.machine()
    return Recipe(name, source_root() / "images" / name, source_root(), machine)


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


def write_archive(
    out: Path,
    reference: str,
    layers: Sequence[tuple[Path, str]],
    config: Mapping[str, object],
    machine: str = platform.machine(),
) -> None:
    """Join layers and configuration to a docker-archive."""
    document = {
        "architecture": _ARCHITECTURES.get(machine, machine),
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


def build(name: str, progress: Progress, architecture: str = "") -> Path:
    """The image's archive in the cache, made when its content changed."""
    image = recipe(name, architecture)
    target = image.archive.parent
    with staged(target, f"image {image.reference}", progress) as stage:
        if stage is not None:
            scratch = stage.with_name("layers")
            scratch.mkdir()
            builder = _build_program if (image.folder / "main.go").is_file() else _build_python
            builder(image, scratch, stage / "image.tar", progress)
            prune(target, image.label)
    return image.archive


def _build_program(image: Recipe, scratch: Path, out: Path, progress: Progress) -> None:
    """One static Go program and nothing else."""
    if image.foreign:
        raise BadInputError(f"{image.name} is only built for this machine; {image.foreign} was asked for")
    root = scratch / "root"
    spec = gobuild.GoBuild(image.reference, ".", image.name, "-s -w", directory=image.folder, minutes="some seconds")
    gobuild.build(spec, root, progress)
    layer = scratch / "layer.tar"
    write_archive(out, image.reference, [(layer, write_layer(root, layer))], {"Entrypoint": [f"/{image.name}"]})


def _build_python(image: Recipe, scratch: Path, out: Path, progress: Progress) -> None:
    """Debian packages, libraries, the bytecode of both, our own files: four layers, from the one that changes least."""
    base, libraries = foundation(image, progress)
    compiled = bytecode(image, progress)
    progress.waiting(f"image {image.reference}")
    files = scratch / "files"
    for source, target in image.files():
        place = files / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=_SKIPPED)
        else:
            shutil.copy(source, place)
    _compile(image, files, files, progress)
    layers = []
    for index, tree in enumerate((base, libraries, compiled, files)):
        layer = scratch / f"layer{index}.tar"
        layers.append((layer, write_layer(tree, layer)))
    write_archive(out, image.reference, layers, config_of(image), image.machine)


def foundation(image: Recipe, progress: Progress) -> tuple[Path, Path]:
    """The unpacked packages and the libraries of an image, from the cache or made now."""
    packages = image.packages()
    words = ["status.d", *packages, *filter(None, [image.foreign])]
    key = hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
    base = debian.tree(packages, cache_dir() / "images" / f"base-{key}", cache_dir(), progress, image.foreign)
    return base, _libraries(image, progress)


def bytecode(image: Recipe, progress: Progress) -> Path:
    """The bytecode of an image's packages and libraries, from the cache or made now."""
    base, libraries = foundation(image, progress)
    words = [base.name, libraries.name, _python(progress).name, (image.checkout / "images/compile.py").read_text()]
    key = hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
    target = cache_dir() / "images" / f"bytecode-{image.label}-{key}"
    with staged(target, f"bytecode of {image.reference}", progress) as stage:
        if stage is not None:
            progress.waiting(f"bytecode of {image.reference}")
            for tree in (base, libraries):
                _compile(image, tree, stage, progress)
            prune(target, f"bytecode-{image.label}")
    return target


def _python(progress: Progress) -> Path:
    """Packages with the Python that is in every image, for this machine; bytecode is the same on all machines."""
    return foundation(recipe("init"), progress)[0]


def _compile(image: Recipe, source: Path, target: Path, progress: Progress) -> None:
    """Compile by the Python of the images, whichever this machine has; it starts with the C library that it knows."""
    base = _python(progress)
    [folder] = (base / "usr/lib").glob("*-linux-gnu")
    [loader] = folder.glob("ld-linux*.so.*")
    python = [str(loader), "--library-path", str(folder), str(base / "usr/bin/python3.11"), "-S", "-s"]
    command = [*python, str(image.checkout / "images/compile.py"), str(source), str(target)]
    env = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        last = (result.stderr.strip() or "no message").splitlines()[-1]
        raise ClusterError(f"images/compile.py: {last}")


def emulator(progress: Progress) -> Path:
    """A program that runs those of arm64 on this machine."""
    return (
        debian.tree(["qemu-user-static"], cache_dir() / "qemu", cache_dir(), progress) / "usr/bin/qemu-aarch64-static"
    )


def config_of(image: Recipe) -> dict[str, object]:
    """What a container of the image starts, as whom, and what the image is; its Dockerfile says the same."""
    about = image.about()
    labels = {
        "title": f"powertrain-{image.name}",
        "description": about["description"],
        "licenses": "Apache-2.0",
        "version": __version__,
    }
    return {
        "Entrypoint": [about["entrypoint"]],
        "User": about["user"],
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"],
        "Labels": {f"org.opencontainers.image.{name}": value for name, value in labels.items()},
    }


def _libraries(image: Recipe, progress: Progress) -> Path:
    target = cache_dir() / "images" / f"libraries-{image.name}-{image.library_key()}"
    with staged(target, f"libraries of {image.reference}", progress) as stage:
        if stage is not None:
            progress.waiting(f"libraries of {image.reference}")
            install = ["sh", str(image.folder / "install.sh"), str(image.checkout), str(stage)]
            env = {**os.environ, "PIP_PYTHON": sys.executable}
            if image.foreign:
                env["PIP_MACHINE"] = image.machine
            result = subprocess.run(install, env=env, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                last = (result.stderr.strip() or "no message").splitlines()[-1]
                raise ClusterError(f"{image.name}/install.sh: {last}")
    return target


def prune(target: Path, name: str) -> None:
    """Entries of earlier contents go, unless somebody may still be reading a fresh one."""
    digits = len(target.name) - len(name) - 1
    for other in target.parent.glob(f"{name}-{'[0-9a-f]' * digits}"):
        if other != target and time.time() - other.stat().st_mtime > _FRESH_S:
            shutil.rmtree(other, ignore_errors=True)


def main() -> None:
    """Write one image to a file."""
    if len(sys.argv) not in (3, 4):
        raise SystemExit("usage: python -m powertrain_devcluster.builds.images NAME OUT.tar [amd64|arm64]")
    try:
        shutil.copy(build(sys.argv[1], Lines(), *sys.argv[3:]), sys.argv[2])
    except ClusterError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
