"""A headless Chromium for tests of pages: the machine's own, or Debian's, unpacked into the cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from powertrain_devcluster.builds import debian
from powertrain_devcluster.builds.progress import Progress
from powertrain_devcluster.paths import cache_dir

# A machine without fonts would draw pages with empty boxes for letters.
_PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
_NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Browser:
    """The program, and the environment that it needs beside the caller's own."""

    program: Path
    env: Mapping[str, str]


def browser(progress: Progress) -> Browser:
    """Return a browser: one on PATH, else Debian's, downloaded and unpacked when it is not there."""
    for name in _NAMES:
        path = shutil.which(name)
        if path is not None:
            return Browser(Path(path), {})
    root = debian.tree(_PACKAGES, cache_dir() / "chromium-shell", cache_dir(), progress)
    return Browser(next((root / "usr/lib/chromium").glob("*headless*shell")), _environment(root))


def _environment(root: Path) -> dict[str, str]:
    """Point the unpacked browser at its own libraries and fonts; nothing of it is installed."""
    fonts = root / "etc/fonts/powertrain.conf"
    if not fonts.is_file():
        fonts.parent.mkdir(parents=True, exist_ok=True)
        folder, cache = root / "usr/share/fonts/truetype/dejavu", root / "var/cache/fontconfig"
        fonts.write_text(
            f"<fontconfig><dir>{folder}</dir><cachedir>{cache}</cachedir></fontconfig>\n", encoding="utf-8"
        )
    libraries = next((root / "usr/lib").glob("*-linux-gnu"))
    paths = [str(libraries), str(libraries / "pulseaudio"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths)), "FONTCONFIG_FILE": str(fonts)}
