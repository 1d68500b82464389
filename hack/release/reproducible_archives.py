"""Archives whose bytes follow from their content alone: sorted entries, one date, no owners."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The oldest date that a zip can hold.
OLDEST_S = 315_532_800
# How hard gzip tries; 1 is for tests that unpack the result at once.
LEVEL = int(os.environ.get("RELEASE_GZIP_LEVEL", "6"))


def epoch() -> int:
    """Return the date of everything in the release: SOURCE_DATE_EPOCH, or that of the last commit."""
    epoch_text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch_text:
        return max(int(epoch_text), OLDEST_S)
    result = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return max(int(result.stdout), OLDEST_S) if result.returncode == 0 and result.stdout.strip() else OLDEST_S


def sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def gzip_file(source: Path, target: Path) -> None:
    """Compress a file; neither its name nor its date is in the result."""
    with (
        source.open("rb") as file,
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed,
    ):
        shutil.copyfileobj(file, packed, 1 << 20)


def tar_gz(target: Path, files: Mapping[str, bytes], programs: frozenset[str] = frozenset()) -> None:
    """Write files, by name, as .tar.gz; those in `programs` can be started."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(files[name]), epoch()
            entry.mode = 0o755 if name in programs else 0o644
            archive.addfile(entry, io.BytesIO(files[name]))


def zip_tree(folder: Path, target: Path, prefix: bytes = b"") -> None:
    """Write a folder as .zip, after a prefix (the first line of a program)."""
    date = time.gmtime(epoch())[:6]
    with target.open("wb") as raw:
        raw.write(prefix)
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                entry = zipfile.ZipInfo(str(path.relative_to(folder)), date)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
                archive.writestr(entry, path.read_bytes())
