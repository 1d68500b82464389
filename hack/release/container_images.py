"""Image archives of a release, for boards and servers: the builder's archives under the release's tag, compressed."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import sbom
from reproducible_archives import gzip_file

from powertrain import __version__
from powertrain_devcluster.builds import images
from powertrain_devcluster.builds.progress import Progress

ARCHITECTURES = ("arm64", "amd64")
# What a release has. `agent-nn` holds PyTorch with libraries for servers, gigabytes: sites that want it build it.
NAMES = ("operator", "agent", "init", "cli", "training-example", "training-torch")


def reference(name: str) -> str:
    """Return what the image is called in the release, as the chart and the examples name it."""
    return images.recipe(name).reference.replace(f":{images.TAG}", f":{__version__}")


def retag(source: Path, target: Path, name: str) -> None:
    """Copy an image archive under another reference."""
    with tarfile.open(source) as before, tarfile.open(target, "w") as after:
        for entry in before:
            data = before.extractfile(entry)
            assert data is not None
            if entry.name == "manifest.json":
                [manifest] = json.load(data)
                body = json.dumps([manifest | {"RepoTags": [name]}]).encode()
                entry.size = len(body)
                after.addfile(entry, io.BytesIO(body))
            else:
                after.addfile(entry, data)


def build(names: list[str], architectures: list[str], out: Path, scratch: Path, progress: Progress) -> list[Path]:
    """Write an archive and a bill of materials for each image and architecture."""
    files = []
    for name in names:
        for architecture in architectures:
            archive = images.build(name, progress, architecture)
            stem = f"powertrain-image-{name}-{__version__}-linux-{architecture}"
            tagged = scratch / f"{stem}.tar"
            retag(archive, tagged, reference(name))
            packed = out / f"{stem}.tar.gz"
            gzip_file(tagged, packed)
            tagged.unlink()
            bill = out / f"{stem}.cdx.json"
            bill.write_text(sbom.document(name, architecture, progress), encoding="utf-8")
            files += [packed, bill]
    return files
