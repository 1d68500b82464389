"""Gateway: the one place that changes the cluster. Each call first makes sure that this process may still act."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from powertrain_kube import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeApi,
    NotFoundError,
    Object,
)
from powertrain_kube.patches import difference
from powertrain_operator.cache import Cache, taken_name_key
from powertrain_operator.core_requests import of_others
from powertrain_operator.observation import Key, Observation, observation_of
from powertrain_operator.plan import (
    ENVELOPE_MANAGER,
    MANAGERS,
    Apply,
    ApplyStatus,
    CheckTemplate,
    CountRequests,
    Create,
    Delete,
)
from powertrain_operator.resources import POD, RESOURCE_BY_KIND, ResourceType, resource_of
from powertrain_operator.runtime.metrics import OperatorMetrics

Write = Apply | ApplyStatus | Create | Delete | CheckTemplate | CountRequests


class Gateway:
    """Carries out writes and hands what the server answers to `learn`, so that the cache knows it at once."""

    def __init__(
        self,
        api: KubeApi,
        cache: Cache,
        check: Callable[[], None],
        metrics: OperatorMetrics,
        learn: Callable[[Observation], None],
        forget: Callable[[Key, int], None],
        release: str,
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._cache = cache
        self._check = check
        self._metrics = metrics
        self._learn = learn
        self._forget = forget
        self._release = release
        self._clock = clock
        self._applied: dict[tuple[Key, str], str] = {}
        # Whose last write was not answered: what the server has of them is not known.
        self._unsure: set[Key] = set()

    def execute(self, action: Write) -> bool:
        """Do it; False if nothing was to be done. Raises ApiError or LeaseLostError."""
        match action:
            case Apply() | ApplyStatus():
                return self._apply(action)
            case Create():
                return self._create(action)
            case Delete():
                return self._delete(action)
            case CheckTemplate():
                return self._check_template(action)
            case CountRequests():
                return self._count_requests(action)

    def post(self, path: str, body: Object) -> Object:
        """Create an object that the cache does not hold (Events)."""
        self._check()
        self._metrics.count_write(body["kind"], "create")
        return self._api.create(path, body)

    def amend(self, kind: ResourceType, path: str, body: Object) -> Object:
        """Merge into an object that the cache does not hold (Events)."""
        self._check()
        self._metrics.count_write(kind.name, "patch")
        return self._api.merge_patch(path, body)

    def forget(self, key: Key) -> None:
        """Forget what was applied to an object that does not exist any more."""
        self._unsure.discard(key)
        for manager in MANAGERS:
            self._applied.pop((key, manager), None)

    def stands(self, action: Apply | ApplyStatus) -> bool:
        """Say whether an apply would change nothing: it is the last one again, and nobody changed its fields since."""
        kind = resource_of(action.body)
        key = _key(kind, action.body)
        observation = self._cache.observation(key) if key.kind in self._cache else None
        applied = self._applied.get((key, action.manager))
        same = (
            observation is not None
            and applied == f"{observation.uid} {_digest(action.body)}"
            and within(action.body, observation.whole())
        )
        if same:
            self._metrics.skipped(kind.name)
        return same

    def send(self, action: Apply | ApplyStatus) -> Object:
        """Apply and return what the server answers, which the cache does not know yet; any thread may."""
        kind = resource_of(action.body)
        key = _key(kind, action.body)
        subresource = "status" if isinstance(action, ApplyStatus) else ""
        self._check()
        self._metrics.count_write(kind.name, f"apply {subresource}".strip())
        path = kind.path(key.namespace, key.name, subresource)
        return self._api.apply(path, _exactly(action.body, action), manager=action.manager)

    def note_answer(self, action: Apply | ApplyStatus, answer: Object) -> None:
        """Take note of what the server answered."""
        kind = resource_of(action.body)
        self._keep(kind, answer)
        place = (_key(kind, action.body), action.manager)
        self._applied[place] = f"{answer['metadata'].get('uid', '')} {_digest(action.body)}"

    def _apply(self, action: Apply | ApplyStatus) -> bool:
        if self.stands(action):
            return False
        key = _key(resource_of(action.body), action.body)
        patch = self._difference(key, action)
        if patch == {}:
            self._metrics.skipped(key.kind)
            return False
        self._unsure.add(key)
        answer = self._send_for_version(key, action, patch)
        self._unsure.discard(key)
        self.note_answer(action, answer)
        return True

    def _send_for_version(self, key: Key, action: Apply | ApplyStatus, patch: Object | None) -> Object:
        """Send a write; of one that is for a version of the object, the cache knows that it may be under way."""
        version = action.version if isinstance(action, Apply) else 0
        if version:
            self._cache.note_sent(key, version)
        try:
            return self.send(action) if patch is None else self._patch(key, action, patch)
        except (InvalidError, ForbiddenError, NotFoundError):
            self._cache.note_refused(key)
            raise

    def _difference(self, key: Key, action: Apply | ApplyStatus) -> Object | None:
        """Return what of a part that we alone write is other than the server has; None where that is not certain.

        For the server that is less work than an apply of the whole part, which comes to the same.
        """
        part = "status" if isinstance(action, ApplyStatus) else "spec" if action.manager == ENVELOPE_MANAGER else ""
        observation = self._cache.observation(key) if part and key.kind in self._cache else None
        if observation is None or observation.uid != action.uid or key in self._unsure:
            return None
        whole = observation.whole()
        if part == "spec" and not within(action.body["metadata"], whole["metadata"]):
            return None
        return difference(whole.get(part) or {}, action.body.get(part) or {})

    def _patch(self, key: Key, action: Apply | ApplyStatus, patch: Object) -> Object:
        """Send a difference; with the uid, so that another object of the name stays as it is."""
        part = "status" if isinstance(action, ApplyStatus) else "spec"
        subresource = part if part == "status" else ""
        self._check()
        self._metrics.count_write(key.kind, f"patch {subresource}".strip())
        path = RESOURCE_BY_KIND[key.kind].path(key.namespace, key.name, subresource)
        return self._api.merge_patch(path, _exactly({part: patch}, action), manager=action.manager)

    def _create(self, action: Create) -> bool:
        kind = resource_of(action.body)
        key = _key(kind, action.body)
        try:
            self._write(kind.name, "create", self._api.create, kind.path(key.namespace), action.body)
        except AlreadyExistsError:
            existing = self._api.get(kind.path(key.namespace, key.name))
            self._keep(kind, existing)
            if not _same_owner(existing, action.body) or not kind.watches(existing, self._release):
                words = f"there is a {key} already that belongs to somebody else: rename or delete it"
                self._cache.note_answer(taken_name_key(key), words, self._clock())
            return False
        return True

    def _delete(self, action: Delete) -> bool:
        key, how = action.key, action.propagation
        observation = self._cache.observation(key)
        version = observation.version if observation is not None and observation.uid == action.uid else 0
        try:
            answer = self._write(key.kind, "delete", self._api.delete, _path(key), uid=action.uid, propagation=how)
        except (NotFoundError, ConflictError):
            self._forget(key, version)
            return False
        if answer.get("kind") == "Status":
            self._forget(key, version)
        return True

    def _check_template(self, action: CheckTemplate) -> bool:
        kind = resource_of(action.body)
        path = kind.path(action.body["metadata"].get("namespace", ""))
        self._check()
        try:
            self._api.create(path, action.body, dry_run=True, strict=True)
        except AlreadyExistsError:
            pass  # the name is looked at last
        except (InvalidError, ForbiddenError) as error:
            self._cache.note_answer(action.key, error.words, self._clock())
            return True
        self._cache.note_answer(action.key, "", self._clock())
        return True

    def _count_requests(self, action: CountRequests) -> bool:
        pods = self._api.list(POD.path(), {"fieldSelector": f"spec.nodeName={action.node}"})["items"]
        self._cache.note_answer(action.key, str(of_others(pods)), self._clock())
        return True

    def _write(
        self, kind: str, verb: str, call: Callable[..., Object], path: str, *args: Any, **options: Any
    ) -> Object:
        self._check()
        self._metrics.count_write(kind, verb)
        answer = call(path, *args, **options)
        self._keep(RESOURCE_BY_KIND[kind], answer)
        return answer

    def _keep(self, kind: ResourceType, answer: Object) -> None:
        """Let the cache know the object that the server answered with; a deleted one may be answered by a Status."""
        if kind.name in self._cache and answer.get("kind") != "Status" and kind.watches(answer, self._release):
            self._learn(observation_of(kind, answer))


def _same_owner(one: Object, other: Object) -> bool:
    """Say whether two objects have a common owner."""
    owners = [{each["uid"] for each in body["metadata"].get("ownerReferences") or ()} for body in (one, other)]
    return bool(owners[0] & owners[1])


def within(part: Any, whole: Any) -> bool:
    """Say whether every field of `part` has that value in `whole`; lists must be equal as a whole."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(within(value, whole.get(name)) for name, value in part.items())
    if isinstance(part, list):
        same = isinstance(whole, list) and len(part) == len(whole)
        return same and all(within(one, other) for one, other in zip(part, whole, strict=True))
    return bool(part == whole)


def _exactly(body: Object, action: Apply | ApplyStatus) -> Object:
    """Return the body for exactly that object, or that version of it: else the server refuses."""
    version = action.version if isinstance(action, Apply) else 0
    preconditions = {"uid": action.uid} if action.uid else {}
    preconditions |= {"resourceVersion": str(version)} if version else {}
    return {**body, "metadata": {**body.get("metadata", {}), **preconditions}} if preconditions else body


def _key(kind: ResourceType, body: Object) -> Key:
    metadata = body["metadata"]
    return Key(kind.name, metadata.get("namespace", "") if kind.namespaced else "", metadata["name"])


def _path(key: Key) -> str:
    return RESOURCE_BY_KIND[key.kind].path(key.namespace, key.name)


def _digest(body: Object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
