"""The version: its one source is powertrain.__version__; `make version-bump VERSION=1.2.3` writes it everywhere else.

Some files can't import it: package metadata, the SDK (which imports nothing), the chart, image labels, examples.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "core/powertrain/__init__.py"
VERSION = r"[0-9]+\.[0-9]+\.[0-9]+(?:(?:a|b|rc)[0-9]+)?"
# Files by pattern, and the text before each version in them.
PLACES = {
    SOURCE: r'__version__ = "',
    "pyproject.toml": r'(?:^|\n)version = "',
    "sdk/pyproject.toml": r'(?:^|\n)version = "',
    "devcluster/pyproject.toml": r'(?:^|\n)version = "',
    "sdk/powertrain_sdk/__init__.py": r'__version__ = "',
    "charts/powertrain/Chart.yaml": r"\n(?:version|appVersion): ",
    "charts/powertrain/ci/*.yaml": r"tag: ",
    "images/*/Dockerfile": r'image\.version="',
    "examples/**/*.yaml": r"image: powertrain-[a-z-]+:",
    "docs/how-to/*.md": r"powertrain-[a-z]+:(?=[0-9])",
    "tests/chart/snapshots/*.yaml": r"(?:app\.kubernetes\.io/version: |helm\.sh/chart: powertrain-|powertrain-[a-z]+:)",
}


def versions(root: Path) -> dict[str, set[str]]:
    """Return the versions that each file names."""
    return {
        str(path.relative_to(root)): in_file
        for pattern, before in PLACES.items()
        for path in sorted(root.glob(pattern))
        if (in_file := set(re.findall(f"(?:{before})({VERSION})", path.read_text(encoding="utf-8"))))
    }


def bump(root: Path, version: str, today: str) -> list[str]:
    """Write the version everywhere and give it a section in the changelog; return the files that changed."""
    if not re.fullmatch(VERSION, version):
        raise SystemExit(f"VERSION={version!r} is not of the form 1.2.3 or 1.2.3rc1")
    changed = []
    for pattern, before in PLACES.items():
        for path in sorted(root.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            bumped = re.sub(f"({before}){VERSION}", rf"\g<1>{version}", text)
            if bumped != text:
                path.write_text(bumped, encoding="utf-8")
                changed.append(str(path.relative_to(root)))
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    section = f"## {version} ({today})"
    changelog.write_text(text.replace("## Unreleased\n", f"## Unreleased\n\n{section}\n", 1), encoding="utf-8")
    return [*changed, "CHANGELOG.md"]


if __name__ == "__main__":
    print("\n".join(bump(ROOT, sys.argv[1] if len(sys.argv) > 1 else "", datetime.now(UTC).date().isoformat())))
