"""The API server as this agent uses it: four verbs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from powertrain_kube import Object

# One name for all that the agent writes, so that every release of it owns the same fields.
FIELD_MANAGER = "powertrain-agent"


class Api(Protocol):
    """What the link needs of an API server."""

    def list(self, path: str, query: Mapping[str, str]) -> Object:
        """Return a list of objects, with the version it was taken at."""
        ...

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Return events as they come, until the server or silence ends it."""
        ...

    def apply(self, path: str, body: Object) -> Object:
        """Make these fields the agent's and give them these values (server-side apply)."""
        ...

    def merge_patch(self, path: str, body: Object) -> Object:
        """Change these fields, remove those that are null, and return the object as it is then."""
        ...
