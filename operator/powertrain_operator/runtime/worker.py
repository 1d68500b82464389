"""Worker: the one thread that owns cache and queue; takes news, reconciles one key after the other, has plans done."""

from __future__ import annotations

import queue
import random
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from powertrain_kube import ApiError, InvalidError, KubeApi, Log, Object
from powertrain_operator import lookup
from powertrain_operator.cache import Cache, Change
from powertrain_operator.observation import Key, Observation
from powertrain_operator.plan import (
    AffectedKeys,
    Announce,
    Apply,
    ApplyStatus,
    CheckTemplate,
    Context,
    CountRequests,
    Create,
    FailureActions,
    Plan,
    Rank,
    RankOf,
    Reconcile,
)
from powertrain_operator.runtime.background import send_all
from powertrain_operator.runtime.freshness import Freshness
from powertrain_operator.runtime.gateway import Gateway
from powertrain_operator.runtime.lease import LeaseLostError
from powertrain_operator.runtime.messages import (
    BackgroundWrite,
    Inbox,
    ListCompletion,
    Message,
    ObjectDeletion,
    ObjectUpdate,
    Source,
    Wakeup,
    WriteResult,
)
from powertrain_operator.runtime.metrics import OperatorMetrics
from powertrain_operator.runtime.queue import WorkQueue
from powertrain_operator.runtime.recorder import Recorder
from powertrain_operator.settings import Settings
from powertrain_operator.trouble import Trouble, trouble

# A turn without news ends by itself, to show that the worker lives.
LONGEST_WAIT_S = 1.0
RESYNC_SPREAD_S = 30.0


class Worker:
    """An exception in one key is that key's trouble alone; only a lost Lease ends the worker."""

    def __init__(
        self,
        api: KubeApi,
        settings: Settings,
        reconcilers: Mapping[str, Reconcile],
        affected_keys: AffectedKeys,
        check: Callable[[], None],
        log: Log,
        clock: Callable[[], float],
        *,
        lease_held: Callable[[], bool] = lambda: True,
        cache: Cache | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        draw: random.Random | None = None,
        rank_of: RankOf = lambda cache, key: Rank.REST,
        pauses_s: Mapping[str, float] | None = None,
        failure_actions: FailureActions = lambda cache, key, words, context: (),
    ) -> None:
        self._settings = settings
        self._failure_actions = failure_actions
        self._reconcilers = reconcilers
        self._affected = affected_keys
        self._ranked = rank_of
        self._pauses_s = pauses_s or {}
        self._log = log
        self._clock = clock
        self._now = now
        self.inbox: Inbox = queue.SimpleQueue()
        self.cache = cache or Cache()
        self.metrics = OperatorMetrics(
            lease_held, self.oldest_s, self.silent_agents_s, self.cache.troubled, self._budgets
        )
        self.freshness = Freshness(clock, settings.watch_stale_s)
        self._queue = WorkQueue(settings.backoff_first_s, settings.backoff_most_s, draw)
        self.gateway = Gateway(
            api, self.cache, check, self.metrics, self._on_write, self._removed, settings.namespace, clock
        )
        # Who writes Events; a process has that done beside the worker.
        self.announce: Callable[[Announce], None] = Recorder(
            api, self.gateway, settings, self.metrics, log, clock, now
        ).announce
        # Who makes the writes that no decision waits for; a process has that done beside the worker as well.
        self.run_background_write: Callable[[BackgroundWrite], None] = lambda write: self._finish_write(
            send_all(write, self.gateway.send)
        )
        self._under_way: dict[Key, bool] = {}  # and whether more is wanted
        self._unlisted = set(self.cache.kinds)
        self._first_due_s: float | None = None
        self._turned_s = self._began_s = clock()

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop; the key at hand is finished."""
        while not stop.is_set():
            self.turn(LONGEST_WAIT_S)

    def turn(self, longest_s: float = 0.0) -> bool:
        """Take the news, waiting for some if nothing is due, and reconcile at most one key; says whether one was."""
        due_s = self._queue.due_s() if self._ready else None
        self._listen(longest_s if due_s is None else min(longest_s, due_s - self._clock()))
        key = self._queue.pop(self._clock()) if self._ready else None
        if key is not None:
            self._reconcile(key)
        self._first_due_s = self._queue.due_s()
        self._turned_s = self._clock()
        self.metrics.queue(len(self._queue))
        return key is not None

    def oldest_s(self) -> float:
        """Return for how long the first key has been due; any thread may ask, also while a turn hangs."""
        first_s = self._first_due_s
        return 0.0 if first_s is None else max(0.0, self._clock() - first_s)

    def silent_agents_s(self) -> dict[str, float]:
        """Return for how long which agents have been silent; any thread may ask."""
        if not self._ready:
            return {}
        return lookup.silent_agents_s(self.cache, self._settings.namespace, self._clock(), self._began_s)

    def _budgets(self) -> list[Object]:
        """Return the PowerBudgets; any thread may ask."""
        return [budget for key in self.cache.keys("PowerBudget") if (budget := self.cache.brief(*key[::2])) is not None]

    def problem(self) -> str:
        """Return what is wrong with worker, queue or watches, empty if nothing is."""
        silent_s, oldest_s = self._clock() - self._turned_s, self.oldest_s()
        wrong = [
            f"worker silent for {silent_s:.0f} s" if silent_s > self._settings.worker_stale_s else "",
            f"a key is due for {oldest_s:.0f} s" if oldest_s > self._settings.queue_stale_s else "",
            self.freshness.problem(),
        ]
        return "; ".join(filter(None, wrong))

    @property
    def _ready(self) -> bool:
        """Say whether every kind was listed once: nobody decides on half a cache."""
        return not self._unlisted

    # Messages.

    def _listen(self, wait_s: float) -> None:
        try:
            self._take(self.inbox.get(timeout=wait_s) if wait_s > 0 else self.inbox.get_nowait())
            while True:
                self._take(self.inbox.get_nowait())
        except queue.Empty:
            return

    def _take(self, news: Message) -> None:
        match news:
            case ObjectUpdate(observation, source):
                self._see(observation, source)
            case ObjectDeletion(key, version):
                self.freshness.note_deletion(key)
                self._changed(self.cache.remove(key, version))
            case ListCompletion(kind, present, version):
                for change in self.cache.prune(kind, set(present), version):
                    self.metrics.repaired(kind)
                    self.freshness.note_deletion(change.key)
                    self._changed(change)
                first = kind in self._unlisted
                self._unlisted.discard(kind)
                if kind in self._reconcilers:
                    self._resync(self.cache.keys(kind), 0.0 if first else RESYNC_SPREAD_S)
            case WriteResult():
                self._finish_write(news)
            case Wakeup():
                pass

    def _resync(self, keys: list[Key], spread_s: float) -> None:
        """Have every key looked at again, spread out so that what really happens is not kept waiting."""
        for number, key in enumerate(keys):
            self._queue.add(key, self._clock(), spread_s * number / len(keys))

    def _see(self, observation: Observation, source: Source) -> None:
        change = self.cache.put(observation, self._clock())
        if source == "watch":
            self.freshness.note_version(observation.key, observation.version)
        elif change is not None:
            self.freshness.expect(observation.key, observation.version)
            if source == "list" and self._ready:
                self.metrics.repaired(observation.key.kind)
        self._changed(change)

    def _on_write(self, observation: Observation) -> None:
        self._see(observation, "write")

    def _removed(self, key: Key, version: int) -> None:
        self.freshness.note_deletion(key)
        self._changed(self.cache.remove(key, version))

    def _changed(self, change: Change | None) -> None:
        if change is None:
            return
        self.metrics.changed(change)
        if change.after is None:
            self.gateway.forget(change.key)
        self._ask_for(change)

    def _ask_for(self, change: Change) -> None:
        try:
            ranks = {key: self._ranked(self.cache, key) for key in self._affected(self.cache, change)}
        except Exception as error:  # the change is that of one object, and so is the trouble
            self.metrics.failed(change.key.kind, type(error).__name__)
            self._log("failed", key=str(change.key), reason=traceback.format_exc(limit=-8), error=type(error).__name__)
            ranks = {change.key: Rank.REST}
        for key, rank in ranks.items():
            if key.kind in self._reconcilers:
                pause_s = 0.0 if key == change.key else self._pauses_s.get(key.kind, 0.0)
                self._queue.add(key, self._clock(), pause_s, rank)

    # Work.

    def _reconcile(self, key: Key) -> None:
        began_s = self._clock()
        plan, failure, words, in_background = Plan(), "", "", False
        own: Trouble | None = None
        context = Context(self._now(), began_s, self._settings)
        try:
            plan = self._reconcilers[key.kind](self.cache, key, context)
            for action in plan.actions:
                if not _is_background(action):
                    self._do(key, plan, action)
            in_background = self._send_background(key, plan)
        except LeaseLostError:
            raise
        except ApiError as error:
            failure, words = type(error).__name__, str(error)
            own = trouble(key, error) if isinstance(error, InvalidError) else None
        except Exception as error:
            failure, own = type(error).__name__, trouble(key, error)
            words = own.trace
        now_s = self._clock()
        self.metrics.reconciled(key.kind, now_s - began_s, failure)
        self._blame(key, plan.troubles, own, context)
        if failure:
            self._try_again(key, self._job(key, plan), failure, words)
            return
        if not in_background:
            self._queue.succeeded(key)
        if plan.requeue_s is not None:
            self._queue.add(key, now_s, plan.requeue_s, rank=self._ranked(self.cache, key))

    def _blame(self, key: Key, parts: Sequence[Trouble], own: Trouble | None, context: Context) -> None:
        """Note what failed for which object; a reconcile that can't show its own failure has it shown here."""
        for each in parts:
            self.metrics.failed(each.key.kind, "PartFailed")
        troubles = {each.key: each for each in parts} | ({key: own} if own is not None else {})
        for changed in self.cache.blame(key, {name: each.words for name, each in troubles.items()}):
            if changed in troubles:
                self._log("trouble", key=str(changed), source=str(key), reason=troubles[changed].trace)
            if changed.kind in self._reconcilers and (changed != key or own is None):
                self._queue.add(changed, self._clock())
        if own is None:
            return
        try:
            for action in self._failure_actions(self.cache, key, own.words, context):
                self._do(key, Plan(), action)
        except LeaseLostError:
            raise
        except Exception as error:
            self._log("failed", key=str(key), reason=str(error), error=type(error).__name__)

    def _send_background(self, key: Key, plan: Plan) -> bool:
        """Hand over the writes that nobody waits for; says whether there are any. One key's are never made twice at
        a time: what is wanted while some are under way is looked at again when they are answered.
        """
        writes = (action for action in plan.actions if isinstance(action, Apply | ApplyStatus) and action.background)
        todo = tuple(action for action in writes if not self.gateway.stands(action))
        if key in self._under_way:
            self._under_way[key] = self._under_way[key] or bool(todo)
        elif todo:
            self._under_way[key] = False
            self.run_background_write(BackgroundWrite(key, self._job(key, plan), todo))
        return bool(todo)

    def _finish_write(self, result: WriteResult) -> None:
        """Learn the result of writes in the background; the key of those that failed is tried again."""
        write, error = result.write, result.error
        is_stale = self._under_way.pop(write.key, False)
        for action, answer in zip(write.actions, result.answers, strict=False):
            self.gateway.note_answer(action, answer)
            self._log("write", key=str(write.key), uid=write.job_uid, what=_name(action))
        if error is not None:
            self.metrics.failed(write.key.kind, type(error).__name__)
            self._try_again(write.key, write.job_uid, type(error).__name__, str(error))
            return
        self._queue.succeeded(write.key)
        if is_stale:
            self._queue.add(write.key, self._clock())

    def _try_again(self, key: Key, uid: str, failure: str, words: str) -> None:
        again_s = self._queue.retry(key, self._clock())
        self._log("failed", key=str(key), uid=uid, reason=words, error=failure, againS=again_s)

    def _do(self, key: Key, plan: Plan, action: object) -> None:
        if isinstance(action, Announce):
            about = action.regarding
            self.metrics.without_figures(about["kind"], action.reason)
            self.announce(action)
            self._log("decision", key=str(key), uid=self._job(key, plan), reason=action.reason, note=action.message)
            return
        result = self.gateway.execute(action)  # type: ignore[arg-type]
        if result:
            self._log("write", key=str(key), uid=self._job(key, plan), what=_name(action))
        if isinstance(action, CheckTemplate | CountRequests) or (isinstance(action, Create) and not result):
            # What the server answered decides how it goes on, also for those who wait for the object.
            observation = self.cache.observation(key)
            self._ask_for(Change(key, None, observation.brief if observation else None))

    def _job(self, key: Key, plan: Plan) -> str:
        """Return the uid that a line of the log is found by."""
        observation = self.cache.observation(key) if key.kind in self.cache else None
        return plan.job_uid or (observation.uid if observation else "")


def _is_background(action: object) -> bool:
    return isinstance(action, Apply | ApplyStatus) and action.background


def _name(action: object) -> str:
    """Return what an action does, in a few words."""
    verb = type(action).__name__
    target = getattr(action, "key", None)
    body = getattr(action, "body", None)
    if isinstance(target, Key):
        return f"{verb} {target}"
    if isinstance(body, dict):
        metadata = body["metadata"]
        where = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
        return f"{verb} {body['kind']} {where}"
    return verb
