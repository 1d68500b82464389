"""Reads image archives as `docker save` and the release write them: one image, uncompressed or gzip."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from powertrain_cli.errors import CliError


@dataclass(frozen=True)
class Archive:
    """What an archive says about its image."""

    path: Path
    reference: str
    architecture: str
    config: bytes
    layers: tuple[str, ...]

    @property
    def repository(self) -> str:
        """The image's name without registry and tag."""
        return self.reference.rpartition(":")[0].rpartition("/")[2]

    @property
    def tag(self) -> str:
        """The image's tag."""
        return self.reference.rpartition(":")[2]

    @contextmanager
    def open_layers(self) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
        """Give the layers in the archive's own order, each with its name, as a stream to read at once."""
        with tarfile.open(self.path, "r|*") as archive:
            yield self._streams(archive)

    def _streams(self, archive: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
        for entry in archive:
            if entry.name in self.layers:
                stream = archive.extractfile(entry)
                assert stream is not None
                yield entry.name, stream


def read(path: Path) -> Archive:
    """Return what is in an archive; a file that is none says so."""
    documents: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r|*") as archive:
            for entry in archive:
                if entry.name.endswith(".json") and (stream := archive.extractfile(entry)):
                    documents[entry.name] = stream.read()
        images: list[dict[str, Any]] = json.loads(documents["manifest.json"])
        [image] = images
        [reference] = image["RepoTags"]
        config = documents[image["Config"]]
        return Archive(path, reference, json.loads(config)["architecture"], config, tuple(image["Layers"]))
    except (tarfile.TarError, KeyError, ValueError, TypeError) as error:
        raise CliError(
            f"{path}: not an archive of one image with one name ({type(error).__name__}: {error})"
        ) from error
