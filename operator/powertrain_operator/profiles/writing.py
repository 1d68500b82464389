"""Writes PowerProfiles: what a session has measured, how often a profile was used, and corrections of others."""

from __future__ import annotations

from powertrain.api.power_profile import MAX_SOURCES
from powertrain.api.v1alpha1 import (
    Phase,
    PowerProfileSpec,
    PowerProfileStatus,
    PriorMatch,
    SessionResult,
    TrainingJob,
    moment,
)
from powertrain_operator.attempts import ReplicaView, is_over
from powertrain_operator.cache import Cache
from powertrain_operator.node_view import NodeView
from powertrain_operator.plan import STATUS_MANAGER, Action, Announce, Apply, Context, EventType
from powertrain_operator.profiles import matching
from powertrain_operator.profiles.correction import check
from powertrain_operator.profiles.lookup import profile_key, profiles_of
from powertrain_operator.profiles.matching import Object, ProfileKey, ProfileMatch

# Of what is known already a session writes down what it has measured anew at most so often, and in the end.
RENEW_S = 60.0


def save_result(cache: Cache, board: NodeView, job: TrainingJob, view: ReplicaView, context: Context) -> list[Action]:
    """Keep what a session has learnt, once it has chosen and whenever it has measured more.

    A trial whose training came to its end before that counts with what it has.
    """
    report = view.report
    if report is None or not view.measured:
        return []
    if report.phase not in (Phase.RUNNING, Phase.ENDED, Phase.RESTORING) and not (view.node.trial and view.complete):
        return []
    key = profile_key(job, board, view.node.batch_size or job.spec.workload.batch_sizes[0])
    profile = cache.brief("PowerProfile", key.name, key.namespace)
    before = _status(profile)
    corrections = f"+{report.profiling.corrections}" if report.profiling.corrections else ""
    source = f"{view.node.session}/{report.profiling.measured}{corrections}"
    if source in before.sources:
        return []
    if profile is not None and not _is_due(cache, job, view, key, context):
        return []
    whole = cache.get("PowerNode", board.name) or {}
    result = SessionResult.model_validate(whole["status"]["session"]["result"])
    others = tuple(each for each in before.sources if each.rpartition("/")[0] != view.node.session)
    if len(others) == len(before.sources):  # its first: this session is counted as a use with what it has learnt
        before = _with_use(before, job, whole)
    status = before.model_copy(update={"sources": (*others, source)[-MAX_SOURCES:]})
    body = matching.body(key, result, board.name, context.now, status)
    # The others come first: an operator that dies in between finds the same difference again.
    checked = [] if view.node.trial else _correct_others(cache, job, key, body, bool(corrections), context)
    return [*checked, Apply(body, background=True)]


def _is_due(cache: Cache, job: TrainingJob, view: ReplicaView, key: ProfileKey, context: Context) -> bool:
    """Say whether what is known already is to be renewed: after a minute, and when the session ends.

    At once where others wait for it: a trial ends with it, and other batch sizes are corrected by it.
    """
    if view.node.trial or len(job.spec.workload.batch_sizes) > 1:
        return True
    if is_over(job, view) or (view.report is not None and view.report.phase is not Phase.RUNNING):
        return True
    written_s = cache.changed_s("PowerProfile", key.namespace, key.name) or 0.0
    return context.monotonic_s - written_s >= RENEW_S


def _with_use(before: PowerProfileStatus, job: TrainingJob, power_node: Object) -> PowerProfileStatus:
    """Return the status with one more use, if the session began with this very profile."""
    prior = ((power_node.get("spec") or {}).get("session") or {}).get("prior") or {}
    if prior.get("match") != PriorMatch.EXACT.value:
        return before
    return before.model_copy(update={"uses": before.uses + 1, "last_used_at": job.status.started_at})


def _correct_others(
    cache: Cache, job: TrainingJob, key: ProfileKey, body: Object, revisited: bool, context: Context
) -> list[Action]:
    """Correct the profiles of other batch sizes by what was found at this one. A trial only fills in its own."""
    profiles = {name: (uid, spec) for name, uid, spec in matching.same_kind(profiles_of(cache, job), key)}
    if key.name not in profiles:
        return []
    _, before = profiles.pop(key.name)
    if not profiles:
        return []
    now = PowerProfileSpec.model_validate(body["spec"])
    checked = check(before, now, {name: spec for name, (_, spec) in profiles.items()}, context.now, revisited)
    if not checked.profiles:
        return []
    reason = "OtherBatchSizesStale" if checked.stale else "OtherBatchSizesCorrected"
    applied = [
        Apply(
            matching.whole(name, key.namespace, spec, _status(cache.brief("PowerProfile", name, key.namespace))),
            uid=profiles[name][0],
            background=True,
        )
        for name, spec in checked.profiles.items()
    ]
    return [_announce(job, "Normal", reason, checked.message), *applied]


def count_use(cache: Cache, job: TrainingJob, match: ProfileMatch, context: Context) -> list[Action]:
    """Say which profile is only a start for a new session, and count it; one that is reused is counted when renewed."""
    if match.prior is None:
        return [] if not match.problem else [_announce(job, "Warning", "ProfileDamaged", match.problem)]
    if match.prior.match is PriorMatch.EXACT:
        return []
    namespace = job.metadata["namespace"]
    profile = cache.brief("PowerProfile", match.name, namespace) or {}
    before = _status(profile)
    status = before.model_copy(update={"uses": before.uses + 1, "last_used_at": moment(context.now)})
    uid = (profile.get("metadata") or {}).get("uid", "")
    return [
        _announce(job, "Normal", "ProfileWarm", f"PowerProfile {match.name} is only a starting point: {match.problem}"),
        Apply(matching.use_patch(match.name, namespace, status), uid=uid, manager=STATUS_MANAGER, background=True),
    ]


def _status(profile: Object | None) -> PowerProfileStatus:
    return PowerProfileStatus.model_validate((profile or {}).get("status") or {})


def _announce(job: TrainingJob, kind: EventType, reason: str, message: str) -> Announce:
    return Announce({"apiVersion": job.api_version, "kind": job.kind, "metadata": job.metadata}, kind, reason, message)
