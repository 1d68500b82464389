"""Reads YAML files and names those that are none; for the commit hook. Templates of the chart are not YAML yet."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml


def main(paths: list[str]) -> int:
    """Say which files can't be read; 1 if any."""
    failed = 0
    for path in paths:
        try:
            list(yaml.parse(Path(path).read_text(encoding="utf-8"), Loader=yaml.SafeLoader))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            failed = 1
            print(f"{path}: {error}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
