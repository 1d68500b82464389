"""One agent as the API server sees it: answers envelopes and releases with what a real agent wrote."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from powertrain.api.base import API_VERSION
from powertrain.api.power_node import KIND
from powertrain.api.v1alpha1 import moment
from powertrain.limit_table import DEFAULT_WINDOW_S
from powertrain_agent.link.status import SETTLE_S, Pace
from powertrain_agent.simulate.simulation import NOON

from .recording import SESSION, Recording, Write

Object = dict[str, Any]
_PACE = Pace()


class AgentReplay:
    """Decides nothing: `told` and `training` start what was recorded after such a cause, `take` does what is due.

    `speed` shortens the agent's own times (until the gate opens, a mode is chosen, the board is restored), not the pace
    of its figures.
    """

    def __init__(self, name: str, recording: Recording, speed: float) -> None:
        self.name = name
        self._recording = recording
        self._speed = speed
        self._status = {k: v for k, v in recording.status.items() if k not in ("conditions", "session")}
        self._conditions: tuple[Object, ...] = tuple(recording.status["conditions"])
        self._session: Object = {}
        self._uid = self._released = ""
        self._asked = False
        self._generation = 0
        self._began: datetime = NOON
        self._due: list[tuple[float, int, Write]] = []
        self._order = itertools.count()
        self._decided_s = self._written_s = 0.0
        self._news = True
        self._answer_s = math.inf
        self._shares: dict[str, Object] = {}
        self._confirmed: dict[str, Object] = {}
        self._kept: dict[str, tuple[int, float]] = {}  # by budget: the revision, and when it is confirmed

    @property
    def in_session(self) -> bool:
        """Say whether a job has the board."""
        return bool(self._session) and not self._session["restored"]

    def gate_open(self, session: str) -> bool:
        """Say whether pods of a session may start."""
        return session == self._uid and bool(self._session.get("gateOpen"))

    def told(self, spec: Object, now_s: float, now: datetime) -> None:
        """Take the PowerNode's spec."""
        self._take_shares(spec.get("shares", ()), now_s)
        asked, release = spec.get("session"), spec.get("release")
        if asked and asked["uid"] not in (self._uid, release):
            self._uid, self._generation, self._began = asked["uid"], asked.get("generation", 1), now
            self._session, self._due = {}, []
            self._play("envelope", now_s)
        elif asked and asked["uid"] == self._uid != release and asked.get("generation", 1) != self._generation:
            # Recorded and checked as one write that brings nothing else, unless another one comes before it.
            self._generation, self._answer_s = asked["generation"], min(self._answer_s, now_s + SETTLE_S)
        if release and release == self._uid != self._released:
            self._released, self._due = release, []
            self._play("release", now_s)
        if asked is None and self._asked:
            self._play("none", now_s)
        self._asked = asked is not None

    def training(self, session: str, now_s: float) -> None:
        """Take note that the session's training has begun."""
        if session == self._uid != self._released:
            self._play("training", now_s)

    def next_s(self) -> float:
        """Return when there is something to write."""
        pace_s = self._written_s + (_PACE.in_session_s if self.in_session else _PACE.idle_s)
        due_s = self._due[0][0] if self._due else pace_s
        return 0.0 if self._news else min(pace_s, self._answer_s, due_s, *(kept_s for _, kept_s in self._kept.values()))

    def take(self, now_s: float, now: datetime) -> Object | None:
        """Return the object to write now, None if nothing is due."""
        if self.next_s() > now_s:
            return None
        while self._due and self._due[0][0] <= now_s:
            _, _, write = heapq.heappop(self._due)
            self._session = {k: v for k, v in {**self._session, **write.session}.items() if v is not None}
            self._conditions, self._decided_s = write.conditions, now_s
        for budget in [name for name, (_, kept_s) in self._kept.items() if kept_s <= now_s]:
            del self._kept[budget]
            self._confirmed[budget] = {key: self._shares[budget][key] for key in ("budget", "watts", "revision")}
        self._news, self._written_s, self._answer_s = False, now_s, math.inf
        return self._body(now_s, now)

    def failed(self) -> None:
        """Take note that the last write was not answered: the newest state is still to be written."""
        self._news = True

    def _take_shares(self, shares: Iterable[Object], now_s: float) -> None:
        """Confirm a share when a real agent would: a higher one at once, any other after a whole guard window."""
        self._shares = {share["budget"]: share for share in shares}
        self._confirmed = {name: share for name, share in self._confirmed.items() if name in self._shares}
        self._kept = {name: kept for name, kept in self._kept.items() if name in self._shares}
        for name, share in self._shares.items():
            confirmed, revision = self._confirmed.get(name), share["revision"]
            if revision in (self._kept.get(name, (0, 0.0))[0], confirmed and confirmed["revision"]):
                continue
            is_raised = confirmed is not None and share["watts"] >= confirmed["watts"]
            window_s = share.get("guardWindowSeconds", DEFAULT_WINDOW_S)
            self._kept[name] = (revision, now_s + (SETTLE_S if is_raised else window_s))

    def _play(self, cause: str, now_s: float) -> None:
        for write in self._recording.writes[cause]:
            heapq.heappush(self._due, (now_s + write.after_s / self._speed, next(self._order), write))

    def _body(self, now_s: float, now: datetime) -> Object:
        recorded = self._status.get("figures", {})
        figures = {**recorded, "idleWatts": recorded["watts"], "at": moment(now)}
        status = {**self._status, "figures": figures, "conditions": self._timed(self._conditions)}
        if self._session:
            mine = {"uid": self._uid, "observedGeneration": self._generation}
            mine["conditions"] = self._timed(self._session.get("conditions", ()))
            status["session"] = {**self._session, **self._progress(now_s), **mine}
        if self._confirmed:
            status["shares"] = list(self._confirmed.values())
            status["shareWatts"] = min(share["watts"] for share in self._confirmed.values())
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": self.name}, "status": status}

    def _timed(self, conditions: Any) -> list[Object]:
        """Return conditions of this session instead of the recorded one's."""
        return [
            {
                **each,
                "message": each.get("message", "").replace(SESSION, self._uid),
                "lastTransitionTime": moment(self._began + (_parsed(each["lastTransitionTime"]) - NOON) / self._speed),
            }
            for each in conditions
        ]

    def _progress(self, now_s: float) -> Object:
        """Return the figures that grow while a training runs: steps and energy."""
        observed, past_s = self._session.get("observed") or {}, now_s - self._decided_s
        step_s, power_w = observed.get("stepSeconds"), observed.get("powerWatts", 0.0)
        if not step_s or not self.in_session:
            return {}
        steps = self._session["training"]["steps"] + int(past_s / step_s)
        size = max(1, self._session["training"]["samples"] // max(1, self._session["training"]["steps"]))
        return {
            "training": {**self._session["training"], "steps": steps, "samples": steps * size},
            "energyJoules": self._session["energyJoules"] + past_s * power_w,
        }


def _parsed(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
