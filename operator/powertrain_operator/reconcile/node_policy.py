"""The site's policy as a session gets it: with the cores that the node's pods and the training need."""

from __future__ import annotations

from powertrain.api.v1alpha1 import CpuCores, JobNode, NodePolicy, TrainingJob
from powertrain_operator.cache import Cache
from powertrain_operator.core_requests import answer_key, core_floor, of_pod
from powertrain_operator.node_view import NodeView
from powertrain_operator.plan import Context


def policy_for(cache: Cache, board: NodeView, job: TrainingJob, node: JobNode, context: Context) -> NodePolicy | None:
    """Return the site's policy with what the node's pods need of its cores, None where that has to be asked first.

    A running session keeps the floor that it began with: its agent would take another one up only afterwards.
    """
    policy = board.policy.node
    if policy.cpu_cores is not CpuCores.HOTPLUG:
        return policy
    if board.session_uid == node.session:
        min_cores = (board.spec.get("policy") or {}).get("minCores")
        return policy.model_copy(update={"min_cores": min_cores or policy.min_cores})
    others = cache.answer(answer_key(board.name), context.monotonic_s)
    if others is None:
        return None
    own = of_pod(job.spec.workload.template.get("spec") or {})
    return policy.model_copy(update={"min_cores": core_floor(int(others) + own, policy.min_cores)})
