"""Makes all files of a release, into a folder; publishes nothing.

Usage: .venv/bin/python hack/release [--out dist] [--only PART,...] [--key GPG_KEY] [--url ADDRESS] [--twice]

Parts: packages, chart, images, plugin, docs. The same commit gives the same bytes: `--twice` makes everything a second
time, without what the first time left in the cache, and compares.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import container_images
import docs_site
import packages
import plugin
from reproducible_archives import ROOT, epoch, sha256

import chart
from powertrain_devcluster.builds.progress import Lines
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.paths import cache_dir

PARTS = ("packages", "chart", "images", "plugin", "docs")
SUMS = "SHA256SUMS"
# Nobody publishes this release: krew then takes the archive from a file.
NOWHERE = "https://releases.example.org/powertrain"
# What can differ between two runs of the same commit, and why.
EXCEPTIONS = {".prov": "a signature holds the time when it was made"}


def make(out: Path, arguments: argparse.Namespace) -> None:
    """Write the parts into an empty folder, then the checksums."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    progress = Lines()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for part in arguments.only:
            began_s = time.monotonic()
            if part == "packages":
                packages.build(out)
            elif part == "chart":
                archive = chart.package(out)
                if arguments.key:
                    chart.sign(archive, arguments.key)
                chart.install_manifest(archive, out, scratch, progress)
                shutil.copy(ROOT / "charts/artifacthub-repo.yml", out)
            elif part == "images":
                container_images.build(arguments.images, arguments.architectures, out, scratch, progress)
            elif part == "plugin":
                wheels = [
                    path
                    for path in packages.build(scratch)
                    if path.name.startswith(("powertrain_operator", "powertrain_sdk")) and path.suffix == ".whl"
                ]
                plugin.krew(plugin.build(wheels, out, scratch), out, arguments.url)
            else:
                docs_site.build(out, scratch)
            print(f"{part}: {time.monotonic() - began_s:.0f} s", flush=True)
    files = sorted(path for path in out.iterdir() if path.name != SUMS)
    (out / SUMS).write_text("".join(f"{sha256(path)}  {path.name}\n" for path in files), encoding="utf-8")


def again(first: Path, arguments: list[str]) -> int:
    """Make the same files once more with a cache that has no image; return 1 and name them if any differs."""
    with tempfile.TemporaryDirectory(dir=first.parent) as folder:
        cache = Path(folder) / "cache" / "powertrain"
        cache.mkdir(parents=True)
        for path in cache_dir().iterdir():
            if path.name != "images":
                (cache / path.name).symlink_to(path)
        second = Path(folder) / "dist"
        command = [sys.executable, str(Path(__file__).parent), *arguments, "--out", str(second)]
        env = {**os.environ, "XDG_CACHE_HOME": str(cache.parent), "SOURCE_DATE_EPOCH": str(epoch())}
        subprocess.run(command, cwd=ROOT, env=env, check=True)
        sums = [
            dict(reversed(line.split()) for line in (out / SUMS).read_text().splitlines()) for out in (first, second)
        ]
    names = sorted(sums[0].keys() | sums[1].keys())
    different = [name for name in names if sums[0].get(name) != sums[1].get(name)]
    allowed = [name for name in different if Path(name).suffix in EXCEPTIONS]
    for name in different:
        print(f"{name}: differs ({EXCEPTIONS.get(Path(name).suffix, 'not reproducible')})")
    print(f"{len(names) - len(different)} of {len(names)} files have the same checksum twice")
    return int(different != allowed)


def _words(text: str) -> list[str]:
    return text.split(",")


def main() -> int:
    """Read the options and make the release."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder, which is emptied first")
    options.add_argument("--only", type=_words, default=list(PARTS), help="some parts, with commas between them")
    options.add_argument("--images", type=_words, default=list(container_images.NAMES), help="some images, with commas")
    architectures = list(container_images.ARCHITECTURES)
    options.add_argument("--architectures", type=_words, default=architectures, help="arm64, amd64 or both")
    options.add_argument("--key", default="", help="a key of gpg that signs the chart")
    options.add_argument("--url", default=NOWHERE, help="where the files will be, for krew")
    options.add_argument("--twice", action="store_true", help="make it twice and compare")
    arguments = options.parse_args()
    if unknown := set(arguments.only) - set(PARTS) or set(arguments.images) - set(container_images.NAMES):
        options.error(
            f"{', '.join(sorted(unknown))}: not one of {', '.join(PARTS)} or {', '.join(container_images.NAMES)}"
        )
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch())
    try:
        make(arguments.out, arguments)
    except (ClusterError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"error: {error}") from error
    size = sum(path.stat().st_size for path in arguments.out.iterdir())
    print(f"{arguments.out}: {len(list(arguments.out.iterdir()))} files, {size / 1e6:.0f} MB")
    if arguments.twice:
        lists = {"only": arguments.only, "images": arguments.images, "architectures": arguments.architectures}
        words = [f"--{name}={','.join(values)}" for name, values in lists.items()]
        return again(arguments.out, [*words, f"--key={arguments.key}", f"--url={arguments.url}"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
