"""Site: what the administrators allow on this node, kept on the host's disk so that it holds without the API server."""

from __future__ import annotations

import json
from datetime import datetime

from powertrain.api.v1alpha1 import NodePolicy, SessionLimits
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.shares import Shares
from powertrain_agent.telemetry.supply import Supply
from powertrain_kube.log import Log

POLICY = "policy.json"
POLICY_SOURCE = "maxWatts of the site's policy"
_LIMITS = {"max_watts", "hard_max_watts", "hard_max_amps", "guard_window_seconds"}


class Site:
    """`asked` is the policy of this moment, whose watts hold at once; `in_force` is the rest, as the session found it.

    Without a policy the agent's own options count (`defaults`).
    """

    def __init__(self, directory: StateDir, defaults: NodePolicy, log: Log) -> None:
        self._directory, self._defaults, self._log = directory, defaults, log
        self._policy: NodePolicy | None = None
        self.in_force = defaults
        self.shortfall = ""  # what of the policy can't be had on this board
        self.supply = Supply()
        self.shares = Shares(directory, log)
        self._load()

    @property
    def newest(self) -> NodePolicy:
        """Return the policy as it was told last."""
        return self._policy or self._defaults

    def limits_at(self, now: datetime, clock_doubt: str = "") -> tuple[NodePolicy, str]:
        """Return the policy with the watts of this moment, the board's share of a PowerBudget included; and the source.

        Where policy and budget have windows of their own, the shorter one is kept for both.
        """
        policy, share = self.newest, self.shares.limit_at(now, clock_doubt)
        if share is None:
            return policy, POLICY_SOURCE
        is_lower = policy.max_watts is None or share.watts < policy.max_watts
        windows = [share.window_s, *([] if policy.max_watts is None else [policy.guard_window_seconds])]
        limits = policy.model_copy(
            update={
                "max_watts": share.watts if is_lower else policy.max_watts,
                "guard_window_seconds": min((self.shares.window_s or share.window_s, *windows)),
            }
        )
        return limits, share.source if is_lower else POLICY_SOURCE

    def hard_limit_w(self, limits: SessionLimits) -> float | None:
        """Return what no single reading of a session may exceed now, by the job, the site and the supply."""
        site = self.newest
        watts, amperes = (limits.hard_limit_watts, site.hard_max_watts), (limits.hard_limit_amps, site.hard_max_amps)
        return self.supply.hard_limit_w(watts, amperes)

    @property
    def limits_power(self) -> bool:
        """Say whether the site limits the power of this board."""
        site = self.newest
        limits = (site.max_watts, site.hard_max_watts, site.hard_max_amps)
        return bool(self.shares.newest) or any(limit is not None for limit in limits)

    @property
    def is_pending(self) -> bool:
        """Say whether something of the policy waits for the session's end."""
        return self.newest.model_dump(exclude=_LIMITS) != self.in_force.model_dump(exclude=_LIMITS)

    def take(self, policy: NodePolicy | None) -> bool:
        """Note what the PowerNode says (None: no policy); says whether that is news."""
        before = self.newest
        if policy != self._policy:
            self._policy = policy
            self._save()
        return self.newest != before

    def settle(self) -> None:
        """Put the whole policy in force: no session runs."""
        self.in_force = self.newest
        self._save()

    def _load(self) -> None:
        try:
            raw = json.loads(self._directory.read(POLICY) or b"null")
            if raw is None:
                return
            self._policy = None if raw["asked"] is None else NodePolicy.model_validate(raw["asked"])
            self.in_force = NodePolicy.model_validate(raw["inForce"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            # The limits of a running job have the policy in them already; the next news brings the policy back.
            self._log("policy", reason=f"{self._directory.path / POLICY} can't be read: {error!r:.200}")

    def _save(self) -> None:
        newest = None if self._policy is None else self._policy.wire()
        try:
            self._directory.replace(POLICY, json.dumps({"asked": newest, "inForce": self.in_force.wire()}).encode())
        except OSError as error:
            self._log("policy", reason=f"the policy could not be saved, it holds until the next restart: {error}")
