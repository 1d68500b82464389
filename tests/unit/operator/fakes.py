"""An API server in memory with the few rules that the runtime relies on, and clocks that stand still."""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from powertrain_kube import AlreadyExistsError, ApiError, ConflictError, Log, NotFoundError, Object
from powertrain_kube.patches import patched
from powertrain_operator.plan import AffectedKeys, Reconcile
from powertrain_operator.reconcilers import affected_keys
from powertrain_operator.runtime.messages import ListCompletion
from powertrain_operator.runtime.worker import Worker
from powertrain_operator.settings import Settings


class Clock:
    """Monotonic and wall clock, moved by hand."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.s)


class FakeApi:
    """Objects by path. `failing` is raised by the next calls; `calls` are the mutating ones."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.version = 100
        self.calls: list[tuple[str, str]] = []
        self.failing: ApiError | None = None

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Object:
        self._fail()
        if path not in self.objects:
            raise NotFoundError(f"GET {path}: 404")
        return copy.deepcopy(self.objects[path])

    def create(
        self, path: str, body: Object, *, manager: str = "", dry_run: bool = False, strict: bool = False
    ) -> Object:
        self._called("dry-run" if dry_run else "create", path)
        where = f"{path}/{body['metadata']['name']}"
        if where in self.objects:
            raise AlreadyExistsError(f"POST {path}: 409")
        return self._store(where, body) if not dry_run else body

    def replace(self, path: str, body: Object) -> Object:
        self._called("replace", path)
        if self.objects[path]["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ConflictError(f"PUT {path}: 409")
        return self._store(path, body)

    def apply(self, path: str, body: Object, *, manager: str = "", force: bool = True, dry_run: bool = False) -> Object:
        self._called("apply", path)
        return self._store(path.removesuffix("/status"), self.objects.get(path.removesuffix("/status"), {}) | body)

    def merge_patch(self, path: str, body: Object, *, manager: str = "") -> Object:
        self._called("patch", path)
        where = path.removesuffix("/status")
        return self._store(where, patched(self.get(where), body))

    def delete(self, path: str, *, uid: str = "", propagation: str = "Background") -> Object:
        self._called("delete", path)
        if self.get(path)["metadata"]["uid"] != uid:
            raise ConflictError(f"DELETE {path}: 409")
        del self.objects[path]
        return {"kind": "Status", "status": "Success"}

    def put(self, path: str, body: Object) -> Object:
        """Another hand changes an object."""
        return self._store(path, body)

    def _store(self, path: str, body: Object) -> Object:
        self.version += 1
        known = self.objects.get(path, {"metadata": {}})["metadata"]
        metadata = {"uid": known.get("uid", f"uid-{self.version}"), **body["metadata"]}
        self.objects[path] = {**body, "metadata": {**metadata, "resourceVersion": str(self.version)}}
        return copy.deepcopy(self.objects[path])

    def _called(self, verb: str, path: str) -> None:
        self._fail()
        self.calls.append((verb, path))

    def _fail(self) -> None:
        if self.failing is not None:
            raise self.failing


class WorkerHarness:
    """A worker over a fake API server, with a log in memory."""

    def __init__(
        self,
        reconcilers: Mapping[str, Reconcile] | None = None,
        affects: AffectedKeys = affected_keys,
        pauses_s: Mapping[str, float] | None = None,
        **settings: Any,
    ) -> None:
        self.clock, self.api, self.lines = Clock(), FakeApi(), io.StringIO()
        self.may_act: list[Exception] = []
        self.settings = Settings(identity="me", **settings)
        self.worker = Worker(
            self.api,  # type: ignore[arg-type]
            self.settings,
            reconcilers or {},
            affects,
            self._check,
            Log(self.lines),
            self.clock,
            now=self.clock.now,
            draw=random.Random(1),
            pauses_s=pauses_s,
        )

    def listed(self) -> None:
        """Every kind was listed, and is empty."""
        for kind in self.worker.cache.kinds:
            self.worker.inbox.put(ListCompletion(kind, frozenset(), 0))

    def metric(self, name: str, **labels: str) -> float:
        return self.worker.metrics.registry.get_sample_value(name, labels) or 0.0

    def _check(self) -> None:
        if self.may_act:
            raise self.may_act[0]
