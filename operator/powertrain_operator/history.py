"""Keeps the history of an ended session with its job: the PowerNode's copy goes with the next session."""

from __future__ import annotations

from pydantic import ValidationError

from powertrain.api.v1alpha1 import JobNode, NodeHistory
from powertrain.session_history import COMPACT_BYTES, SessionHistory
from powertrain_operator.cache import Cache

# Of one TrainingJob, whatever its number of replicas: an object of the API server holds 1.5 MB, and lists hold many.
JOB_BYTES = 128_000


def kept_history(cache: Cache, node: JobNode, replicas: int) -> str | None:
    """Return what a board tells of the job's session over time, short enough for the job; None where it tells nothing.

    Call it when the board is released: the next session's history replaces it there.
    """
    raw = ((cache.get("PowerNode", node.name) or {}).get("status") or {}).get("history")
    if raw is None:
        return None
    try:
        history = NodeHistory.model_validate(raw)
        if history.session != node.session:
            return None
        most_bytes = min(COMPACT_BYTES, JOB_BYTES // max(1, replicas))
        text = SessionHistory.from_text(history.data).compact(most_bytes).to_text()
    except (ValidationError, ValueError):
        return None  # a board's figures are no reason to keep its job from ending
    return text if len(text.encode()) <= most_bytes else None
