"""Compiles the Python files below SOURCE by the Python that runs this; the bytecode goes below TARGET, or SOURCE too.

usage: python3 compile.py SOURCE [TARGET]

A container can't keep what it compiles, so without bytecode in the image each start would compile every module again.
Nothing in an image changes, so Python need not compare the bytecode with the source. The same files give the same bytes
on any machine, if a fresh process with PYTHONHASHSEED=0 compiles them: what else a process holds shows in bytecode.
"""

from __future__ import annotations

import py_compile
import re
import sys
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path

# Thousands of modules that the Kubernetes client imports when somebody uses them; their bytecode would be 50 MB.
RARE = re.compile(r"/kubernetes/(aio|client/(api|models))/(?!__init__\.py$)")
MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH


def sources(root: Path) -> Iterator[Path]:
    """Yield the Python files below a folder, always in the same order."""
    for path in sorted(root.rglob("*.py")):
        if path.is_file() and not path.is_symlink() and not RARE.search(path.as_posix()):
            yield path


def main(source: Path, target: Path) -> None:
    """Compile what is valid Python; libraries ship templates and examples for other versions too."""
    for path in sources(source):
        inside = path.relative_to(source)
        py_compile.compile(
            str(path), cache_from_source(str(target / inside)), f"/{inside}", invalidation_mode=MODE, quiet=2
        )


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python3 compile.py SOURCE [TARGET]")
    main(Path(sys.argv[1]), Path(sys.argv[-1]))
