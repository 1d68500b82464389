"""Recorder: Events about decisions; the same one again only counts up, also after a restart."""

from __future__ import annotations

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from powertrain_kube import AlreadyExistsError, ApiError, KubeApi, Log, NotFoundError, Object, micro_time
from powertrain_operator.plan import Announce
from powertrain_operator.resources import EVENT
from powertrain_operator.runtime.gateway import Gateway
from powertrain_operator.runtime.metrics import OperatorMetrics
from powertrain_operator.settings import Settings

CONTROLLER = "powertrain.io/operator"
# Limits of the API server.
MAX_NOTE = 1024
MAX_NAME = 253


@dataclass
class Series:
    """One Event that was written, and how often it happened."""

    path: str
    regarding: str  # uid
    count: int
    made_s: float
    last_s: float
    written_s: float


class Recorder:
    """An Event that can't be written is logged and dropped: it must never hold up a decision."""

    def __init__(
        self,
        api: KubeApi,
        gateway: Gateway,
        settings: Settings,
        metrics: OperatorMetrics,
        log: Log,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._gateway = gateway
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._now = now
        self._series: OrderedDict[str, Series] = OrderedDict()
        self._about: defaultdict[str, set[str]] = defaultdict(set)  # by the object's uid

    def announce(self, event: Announce) -> None:
        """Write the Event, or count it up."""
        at_s = self._clock()
        mark = _mark(event)
        series = self._series.get(mark)
        try:
            if series is not None and at_s - series.last_s < self._settings.event_window_s:
                self._repeat(series, at_s)
            elif self._recent(event, at_s) >= self._settings.events_per_object:
                self._metrics.event_dropped()
                return
            else:
                series = self._make(event, mark, at_s)
        except ApiError as error:
            self._metrics.event_dropped()
            self._log("event", reason=event.reason, note=event.message, dropped=str(error))
            return
        self._series[mark] = series
        self._series.move_to_end(mark)
        self._about[series.regarding].add(mark)
        while len(self._series) > self._settings.events_remembered:
            self._forget(*self._series.popitem(last=False))

    def _forget(self, mark: str, series: Series) -> None:
        self._about[series.regarding].discard(mark)
        if not self._about[series.regarding]:
            del self._about[series.regarding]

    def _repeat(self, series: Series, at_s: float) -> None:
        series.count += 1
        series.last_s = at_s
        # The first repetition is news, the hundredth is not.
        if series.count > 2 and at_s - series.written_s < self._settings.event_series_s:
            return
        series.written_s = at_s
        series_fields = {"count": series.count, "lastObservedTime": micro_time(self._now())}
        try:
            self._gateway.amend(EVENT, series.path, {"series": series_fields})
        except NotFoundError:
            series.last_s = at_s - self._settings.event_window_s  # it has expired: the next one is made anew

    def _make(self, event: Announce, mark: str, at_s: float) -> Series:
        body = self._body(event, mark)
        metadata = body["metadata"]
        path = EVENT.path(metadata["namespace"], metadata["name"])
        series = Series(path, _uid(event), 1, at_s, at_s, at_s)
        try:
            self._gateway.post(EVENT.path(metadata["namespace"]), body)
        except AlreadyExistsError:
            existing = self._api.get(path)
            series.count = int((existing.get("series") or {}).get("count", 1))
            self._repeat(series, at_s + self._settings.event_series_s)
        return series

    def _recent(self, event: Announce, at_s: float) -> int:
        """Return how many Events about the object were made within the window."""
        since_s = at_s - self._settings.event_window_s
        return sum(self._series[mark].made_s > since_s for mark in self._about.get(_uid(event), ()))

    def _body(self, event: Announce, mark: str) -> Object:
        now = self._now()
        about, metadata = event.regarding, event.regarding["metadata"]
        # Named after what it says and when, so that an operator that was killed in between counts up as well.
        window = int(now.timestamp() // self._settings.event_window_s)
        suffix = hashlib.sha256(f"{mark} {window}".encode()).hexdigest()[:16]
        regarding = {"apiVersion": about["apiVersion"], "kind": about["kind"], "name": metadata["name"]}
        regarding |= {name: metadata[name] for name in ("namespace", "uid", "resourceVersion") if name in metadata}
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {
                "name": f"{metadata['name'][: MAX_NAME - 17]}.{suffix}",
                "namespace": metadata.get("namespace", "default"),
            },
            "eventTime": micro_time(now),
            "reportingController": CONTROLLER,
            "reportingInstance": self._settings.identity[:128],
            "action": "Reconcile",
            "type": event.type,
            "reason": event.reason,
            "regarding": regarding,
            "note": event.message[:MAX_NOTE],
        }


def _uid(event: Announce) -> str:
    return str(event.regarding["metadata"].get("uid", ""))


def _mark(event: Announce) -> str:
    parts = (_uid(event), event.regarding["metadata"]["name"], event.type, event.reason, event.message)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
