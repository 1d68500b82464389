"""How large the images are, layer by layer, for both architectures.

    python benchmarks/image_sizes.py [--build] [--gzip]

Looks at the archives in the cache, each found by what would go into it now; `--build` makes those that are missing,
but for those with PyTorch, which are gigabytes (`python -m powertrain_devcluster.builds.images agent-nn OUT.tar`).
`--gzip` also says what a registry would transfer. Promised: no image without PyTorch is larger than 400 MiB.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import zlib
from pathlib import Path

from powertrain_devcluster.builds import images
from powertrain_devcluster.builds.prepare import FOR_BOARDS
from powertrain_devcluster.builds.progress import Lines

ARCHITECTURES = ("amd64", "arm64")
MIB = 1024.0**2
MOST_MIB = 400.0
WITH_TORCH = ("agent-nn", "training-torch")
CHUNK = 1 << 20


def layers_mib(archive: tarfile.TarFile, compressed: bool) -> list[float]:
    """Return the size of each layer: packages, libraries, bytecode of both, our own files."""
    manifest = archive.extractfile("manifest.json")
    assert manifest is not None
    names = json.load(manifest)[0]["Layers"]
    return [(_gzipped(archive, name) if compressed else archive.getmember(name).size) / MIB for name in names]


def _gzipped(archive: tarfile.TarFile, name: str) -> int:
    layer, packer, size = archive.extractfile(name), zlib.compressobj(), 0
    assert layer is not None
    while chunk := layer.read(CHUNK):
        size += len(packer.compress(chunk))
    return size + len(packer.flush())


def row(path: Path, with_gzip: bool) -> tuple[float, list[str]]:
    """Return the whole size and the cells of an image."""
    with tarfile.open(path) as archive:
        sizes = layers_mib(archive, compressed=False)
        cells = [f"{size:.1f}" for size in sizes] if len(sizes) > 1 else ["", "", "", f"{sizes[0]:.1f}"]
        whole = [f"{sum(sizes):.0f}"] + ([f"{sum(layers_mib(archive, compressed=True)):.0f}"] if with_gzip else [])
    return sum(sizes), [*cells, *whole]


def main() -> int:
    """Print the table; 1 if a promise is broken."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", action="store_true", help="build what is missing, without PyTorch")
    options.add_argument("--gzip", action="store_true", help="also compress, as registries do")
    given = options.parse_args()
    heads = [
        "image",
        "for",
        "packages",
        "libraries",
        "bytecode",
        "own files",
        "MiB unpacked",
        *(["gzip"] if given.gzip else []),
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    large = []
    for name in images.names():
        for architecture in ARCHITECTURES:
            if given.build and name in FOR_BOARDS:
                images.build(name, Lines(), architecture)
            path = images.recipe(name, architecture).archive
            if not path.is_file():
                print(f"| {name} | {architecture} | {'not built |' + ' |' * (len(heads) - 3)}")
                continue
            whole_mib, cells = row(path, given.gzip)
            print(f"| {name} | {architecture} | {' | '.join(cells)} |", flush=True)
            if whole_mib > MOST_MIB and name not in WITH_TORCH:
                large.append(f"{name} for {architecture}")
    print(f"\nlarger than {MOST_MIB:.0f} MiB: {', '.join(large) or 'none'}")
    return int(bool(large))


if __name__ == "__main__":
    sys.exit(main())
