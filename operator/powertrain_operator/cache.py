"""World: everything that was seen of the cluster, as one reconcile after the other reads it.

One thread owns it. Newer versions win, whether they come from a watch, a list or an answer to an own write, so that
nobody acts on their own past. What is read from it is shared: never change it.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from powertrain.api.base import ApiModel
from powertrain_kube import Object
from powertrain_operator.observation import Key, Observation
from powertrain_operator.resources import WATCHED_RESOURCES, ResourceType

# Versions of what was deleted, so that a late answer can't bring it back; more than can be under way at once.
MAX_TOMBSTONES = 10_000
# Answers are asked for again when they are forgotten.
MAX_ANSWERS = 2_000
# What the server refused may be accepted later: a quota, a webhook, a right or a name that was taken.
ASK_AGAIN_S = 60.0
# And the other way round, for the next job of the same template.
STANDS_S = 600.0
# Objects that were read into models; the rest is read again when it is asked for.
MAX_MODELS = 500
# Of what tenants wrote, which may be as large as is kept at all, together: as Python objects at most 100 MB.
MAX_TENANT_BYTES = 4 * 1024 * 1024
Tag = tuple[str, ...]
Model = TypeVar("Model", bound=ApiModel)


@dataclass(frozen=True)
class Change:
    """What is other than before; None before it existed and after it was deleted. Both without heavy parts."""

    key: Key
    before: Object | None
    after: Object | None


class Cache:
    """Objects by kind, namespace and name."""

    def __init__(self, kinds: Iterable[ResourceType] = WATCHED_RESOURCES) -> None:
        self._objects: dict[str, dict[Key, Observation]] = {kind.name: {} for kind in kinds}
        self._tags: defaultdict[Tag, dict[Key, None]] = defaultdict(dict)
        self._changed_s: dict[Key, float] = {}
        self._versions: dict[Key, int] = {}
        self._deleted: OrderedDict[Key, int] = OrderedDict()
        self._answers: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._models: OrderedDict[Key, tuple[Observation, ApiModel]] = OrderedDict()
        self._tenant_bytes = 0
        self._troubles: dict[Key, dict[Key, str]] = {}
        self._doubts: dict[Key, int] = {}

    def __contains__(self, kind: str) -> bool:
        return kind in self._objects

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that are watched."""
        return tuple(self._objects)

    # Reading.

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return an object as a whole."""
        observation = self._kind(kind).get(Key(kind, namespace, name))
        return observation.whole() if observation else None

    def brief(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return an object without its heavy parts."""
        observation = self._kind(kind).get(Key(kind, namespace, name))
        return observation.brief if observation else None

    def read(self, model: type[Model], kind: str, name: str, namespace: str = "") -> Model | None:
        """Return an object as a whole, as the one model of its kind; read anew only when it has changed."""
        key = Key(kind, namespace, name)
        observation, cached = self._kind(kind).get(key), self._models.pop(key, None)
        self._tenant_bytes -= cached[0].tenant_bytes if cached else 0
        if observation is None:
            return None
        if cached is None or cached[0] is not observation:
            cached = (observation, model.model_validate(observation.whole()))
        self._remember(key, cached)
        return cast("Model", cached[1])

    def _remember(self, key: Key, entry: tuple[Observation, ApiModel]) -> None:
        self._models[key] = entry
        self._tenant_bytes += entry[0].tenant_bytes
        while len(self._models) > MAX_MODELS or (self._tenant_bytes > MAX_TENANT_BYTES and len(self._models) > 1):
            self._tenant_bytes -= self._models.popitem(last=False)[1][0].tenant_bytes

    def each(self, kind: str) -> Iterator[Object]:
        """Return all objects of a kind without their heavy parts."""
        return (observation.brief for observation in self._kind(kind).values())

    def by_uid(self, kind: str, uid: str) -> Object | None:
        """Return the object of this uid without its heavy parts."""
        return next(iter(self._tagged((kind, "uid", uid))), None)

    def owned(self, kind: str, uid: str) -> list[Object]:
        """Return the objects that have an owner of this uid."""
        return self._tagged((kind, "owner", uid))

    def labelled(self, kind: str, label: str, value: str) -> list[Object]:
        """Return the objects with this label; only labels of powertrain.io are looked up."""
        return self._tagged((kind, "label", label, value))

    def holding(self, kind: str, node: str) -> list[Object]:
        """Return the objects (TrainingJobs) whose status says that they hold a node."""
        return self._tagged((kind, "holds", node))

    def changed_s(self, kind: str, namespace: str, name: str) -> float | None:
        """Return when this process saw the object change last, on the clock of Context.monotonic_s.

        An agent's Lease is judged by this: the clock of a board may be years off.
        """
        return self._changed_s.get(Key(kind, namespace, name))

    def versions_seen(self, kind: str, namespace: str, name: str) -> int:
        """Return how many versions of the object this process has seen; what was only ever listed may be long dead."""
        return self._versions.get(Key(kind, namespace, name), 0)

    def answer(self, key: str, now_s: float = 0.0) -> str | None:
        """Return the server's words against an object, empty if it is accepted, None if it has to be asked (again)."""
        words, at_s = self._answers.get(key, (None, 0.0))
        return None if now_s - at_s >= (ASK_AGAIN_S if words else STANDS_S) else words

    def trouble(self, key: Key) -> str:
        """Return what fails in the reconciles that an object has a part in, in words; empty if nothing does."""
        return "; ".join(dict.fromkeys(self._troubles.get(key, {}).values()))

    def troubled(self) -> list[Key]:
        """Return the objects that something fails for."""
        return list(self._troubles)

    def is_in_doubt(self, key: Key) -> bool:
        """Say whether a write to the object may still take effect: it was sent, and no later version was seen.

        The write was for one version of the object only; once that is gone, it was done or never will be.
        """
        observation = self._kind(key.kind).get(key)
        return observation is not None and observation.version <= self._doubts.get(key, -1)

    def keys(self, kind: str) -> list[Key]:
        """Return the keys of all objects of a kind."""
        return list(self._kind(kind))

    def observation(self, key: Key) -> Observation | None:
        """Return an object as it was seen."""
        return self._kind(key.kind).get(key)

    # Learning.

    def put(self, observation: Observation, at_s: float = 0.0) -> Change | None:
        """Take note of an object seen at that time, unless something newer is known; returns what changed."""
        objects = self._kind(observation.key.kind)
        before = objects.get(observation.key)
        if before is not None and before.version >= observation.version:
            return None
        if self._deleted.get(observation.key, -1) >= observation.version:
            return None
        self._deleted.pop(observation.key, None)
        self._retag(observation.key, before, observation)
        objects[observation.key] = observation
        self._changed_s[observation.key] = at_s
        self._versions[observation.key] = self._versions.get(observation.key, 0) + 1
        return Change(observation.key, before.brief if before else None, observation.brief)

    def remove(self, key: Key, version: int) -> Change | None:
        """Take note that an object was gone at this version."""
        objects = self._kind(key.kind)
        before = objects.get(key)
        if before is not None and before.version > version:
            return None
        self._deleted[key] = max(version, self._deleted.pop(key, 0))
        while len(self._deleted) > MAX_TOMBSTONES:
            self._deleted.popitem(last=False)
        if before is None:
            return None
        del objects[key]
        del self._changed_s[key], self._versions[key]
        self._troubles.pop(key, None)
        self._doubts.pop(key, None)
        self._retag(key, before, None)
        return Change(key, before.brief, None)

    def prune(self, kind: str, present: set[Key], version: int) -> list[Change]:
        """Remove what a full list of this version did not show: a cut watch never told that it was deleted."""
        missing = [key for key in self._kind(kind) if key not in present]
        return [change for key in missing if (change := self.remove(key, version)) is not None]

    def note_answer(self, key: str, words: str, at_s: float = 0.0) -> None:
        """Take note of the server's answer about an object."""
        self._answers.pop(key, None)
        self._answers[key] = (words, at_s)
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)

    def note_sent(self, key: Key, version: int) -> None:
        """Take note that a write for this version of an object is sent; what comes of it shows in a later version."""
        self._doubts[key] = version

    def note_refused(self, key: Key) -> None:
        """Take note that the server refused that write."""
        self._doubts.pop(key, None)

    def blame(self, source: Key, troubles: Mapping[Key, str]) -> list[Key]:
        """Take note of all that fails in a reconcile, by the object whose part it is; returns for whom that is news.

        While it lasts its first words stay, so that nobody writes them again and again.
        """
        changed = []
        for key in {**self._troubles, **troubles}:
            by_source = self._troubles.setdefault(key, {})
            before = bool(by_source)
            if key in troubles and key in self._objects.get(key.kind, {}):
                by_source.setdefault(source, troubles[key])
            else:
                by_source.pop(source, None)
            if not by_source:
                del self._troubles[key]
            if bool(by_source) != before:
                changed.append(key)
        return changed

    def _kind(self, kind: str) -> dict[Key, Observation]:
        try:
            return self._objects[kind]
        except KeyError:
            raise ValueError(f"no kind {kind!r} is watched; watched are {', '.join(self._objects)}") from None

    def _tagged(self, tag: Tag) -> list[Object]:
        objects = self._kind(tag[0])
        return [objects[key].brief for key in self._tags.get(tag, ())]

    def _retag(self, key: Key, before: Observation | None, after: Observation | None) -> None:
        old = _tags(key.kind, before.brief) if before else set()
        new = _tags(key.kind, after.brief) if after else set()
        for tag in old - new:
            del self._tags[tag][key]
            if not self._tags[tag]:
                del self._tags[tag]
        for tag in new - old:
            self._tags[tag][key] = None


def taken_name_key(key: Key) -> str:
    """Return the key of the answer about a name that could not be had."""
    return f"taken/{key}"


def _tags(kind: str, body: Object) -> set[Tag]:
    """Return what an object can be looked up by."""
    metadata = body["metadata"]
    tags: set[Tag] = {(kind, "uid", metadata.get("uid", ""))}
    tags |= {(kind, "owner", owner["uid"]) for owner in metadata.get("ownerReferences") or ()}
    labels = (metadata.get("labels") or {}).items()
    tags |= {(kind, "label", name, value) for name, value in labels if name.startswith("powertrain.io/")}
    tags |= {(kind, "holds", node["name"]) for node in _nodes(body) if node.get("holds")}
    return tags


def _nodes(body: Object) -> list[Object]:
    """Return the entries of a TrainingJob's status, one for each of its nodes; other kinds have none."""
    nodes = (body.get("status") or {}).get("nodes")
    return nodes if isinstance(nodes, list) else []
