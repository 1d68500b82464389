"""Neighbours: pods on the host that are known to be none of the session's. Any other one may be.

A Job replaces its pod while the agent is cut off from the API server: nobody tells the agent the new pod's uid. So a
pod that came after the last answer of the API server counts as the session's, until the API server is back.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from powertrain_agent.control.state_dir import StateDir

FILE = "neighbours.json"
MOST_BYTES = 16 * 1024  # of a few hundred pods
# The operator names a new pod within seconds; one that was there for so long while the API server answered is foreign.
NAMED_WITHIN_S = 60.0


class Neighbours:
    """Learns while the API server answers; what it has learnt is on the disk, for an agent that starts without it."""

    def __init__(self, directory: StateDir) -> None:
        self._directory = directory
        self._foreign: frozenset[str] | None = None
        self._since_s: dict[str, float] = {}

    def learn(self, pods: Collection[str], own: Collection[str], now_s: float) -> None:
        """Take note of the pods on the host while the API server answers."""
        others = set(pods) - set(own)
        self._since_s = {uid: self._since_s.get(uid, now_s) for uid in others}
        foreign = frozenset(uid for uid in others if now_s - self._since_s[uid] >= NAMED_WITHIN_S)
        foreign |= self._foreign_pods() & others
        if foreign != self._foreign_pods():
            self._foreign = foreign
            self._save()

    def unknown_pods(self, pods: Collection[str], own: Collection[str]) -> set[str]:
        """Return the pods that may be the session's although nobody named them."""
        return set(pods) - set(own) - self._foreign_pods()

    def forget(self) -> None:
        """Begin anew with the next session."""
        self._foreign, self._since_s = frozenset(), {}
        self._directory.remove(FILE)

    def _foreign_pods(self) -> frozenset[str]:
        if self._foreign is None:
            self._foreign = self._load()
        return self._foreign

    def _load(self) -> frozenset[str]:
        try:
            uids = json.loads(self._directory.read(FILE) or b"[]")
            return frozenset(str(uid) for uid in uids)
        except (OSError, ValueError, TypeError):
            return frozenset()  # then every pod may be the session's: the lower power is kept

    def _save(self) -> None:
        assert self._foreign is not None
        try:
            self._directory.replace(FILE, json.dumps(sorted(self._foreign)).encode(), reserve_bytes=MOST_BYTES)
        except OSError:
            return  # an agent that starts again without the API server holds the mode for longer than it must
