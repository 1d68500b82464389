"""Fetches the chart library of the report page and keeps it as checked-in files; building never needs npm.

Usage: python hack/vendor_uplot.py

To upgrade, change VERSION, run it, copy the hash that it reports into SHA256 after reading the package's changes.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE, VERSION = "uplot", "1.6.32"
SHA256 = "4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d"
FILES = {
    "package/dist/uPlot.iife.min.js": "uplot.min.js",
    "package/dist/uPlot.min.css": "uplot.min.css",
    "package/LICENSE": "uplot.LICENSE",
}
TARGET = Path(__file__).resolve().parents[1] / "cli" / "powertrain_cli" / "report" / "assets"


def fetch(folder: Path) -> bytes:
    """Return the package's archive, from the registry that npm is set up for."""
    subprocess.run(
        ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return next(folder.glob("*.tgz")).read_bytes()


def main() -> int:
    """Write the files if the archive is the expected one."""
    with tempfile.TemporaryDirectory() as folder:
        archive = fetch(Path(folder))
    digest = hashlib.sha256(archive).hexdigest()
    if digest != SHA256:
        sys.stderr.write(f"error: {PACKAGE} {VERSION} has the SHA-256 {digest}, not {SHA256}\n")
        return 1
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        for source, name in FILES.items():
            member = package.extractfile(source)
            assert member is not None, source
            (TARGET / name).write_bytes(member.read())
    return 0


if __name__ == "__main__":
    sys.exit(main())
