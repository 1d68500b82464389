"""Bills of materials of the images, in CycloneDX 1.5: Debian packages, Python libraries, our own code."""

from __future__ import annotations

import json
import time
from email.parser import Parser
from pathlib import Path
from typing import Any
from urllib.parse import quote

from reproducible_archives import epoch

from powertrain import __version__
from powertrain_devcluster.builds import images
from powertrain_devcluster.builds.progress import Progress

Component = dict[str, Any]


def debian_components(base: Path) -> list[Component]:
    """Return the packages whose control data is in the image."""
    components = []
    for path in sorted((base / "var/lib/dpkg/status.d").iterdir()):
        field = Parser().parsestr(path.read_text(encoding="utf-8"))
        name, version, architecture = field["Package"], field["Version"], field["Architecture"]
        purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={architecture}&distro=bookworm"
        components.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
    return components


def python_components(libraries: Path) -> list[Component]:
    """Return the installed distributions."""
    components = []
    for path in sorted(libraries.glob("opt/powertrain/lib/*.dist-info/METADATA")):
        field = Parser().parsestr(path.read_text(encoding="utf-8"))
        name, version = field["Name"], field["Version"]
        purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{quote(version)}"
        component: Component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        if field["License-Expression"]:
            component["licenses"] = [{"expression": field["License-Expression"]}]
        components.append(component)
    return components


def document(name: str, architecture: str, progress: Progress) -> str:
    """Return the bill of an image."""
    image = images.recipe(name, architecture)
    base, libraries = images.foundation(image, progress)
    title = f"powertrain-{name}"
    purl = f"pkg:oci/{title}?arch={architecture}&tag={__version__}"
    ours = {"type": "application", "bom-ref": f"{title}-files", "name": "powertrain-operator", "version": __version__}
    ours["licenses"] = [{"license": {"id": "Apache-2.0"}}]
    about = {"type": "container", "bom-ref": purl, "name": title, "version": __version__, "purl": purl}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch())),
            "component": about,
        },
        "components": [ours, *debian_components(base), *python_components(libraries)],
    }
    return json.dumps(bill, indent=1) + "\n"
