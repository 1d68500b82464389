"""What the verbs tell, as plain documents: `--json` prints them, the screens draw them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

from powertrain.api.v1alpha1 import Front, Samples, TrainingJob
from powertrain.limit_table import LIMITS, Span
from powertrain.modes import PowerMode
from powertrain_kube import Object

Document = dict[str, Any]
OVER = ("Succeeded", "Failed")


def job_line(raw: Object, now: datetime) -> Document:
    """Return a job as `list` shows it."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    nodes = status.get("nodes") or []
    limits = [node["limitWatts"] for node in nodes if node.get("limitWatts") is not None]
    progress = status.get("progress") or {}
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "phase": status.get("phase") or "Pending",
        "objective": raw["spec"].get("objective", "MinTime"),
        "nodes": [node["name"] for node in nodes],
        "power_w": status.get("powerWatts"),
        "limit_w": sum(limits) if limits else (raw["spec"].get("constraints") or {}).get("powerWatts"),
        "percent": progress.get("percent"),
        "remaining": status.get("remaining") or None,
        "energy_j": status.get("energyJoules", 0.0),
        "age_s": _age_s(metadata, now),
        "message": status.get("message", ""),
    }


def limits(constraints: Mapping[str, Any]) -> str:
    """Return limits in words; what only says how one is meant, such as a time zone, is none."""
    peak = " at the peak" if constraints.get("powerStatistic") == "Peak" else ""
    parts = [
        limit.sentence.format(f"{constraints[limit.wire_name]:g}") + (peak if limit.span is Span.MEAN else "")
        for limit in LIMITS
        if constraints.get(limit.wire_name) is not None
    ]
    schedule = constraints.get("powerSchedule") or []
    parts += [f"{entry['watts']:g} W from {entry['from']} to {entry['to']}" for entry in schedule]
    return ", ".join(parts) or "no limit"


def job_status(raw: Object, power_nodes: Mapping[str, Object], now: datetime) -> Document:
    """Return a job as `status` shows it, with what its boards have tried."""
    status = raw.get("status") or {}
    return {
        **job_line(raw, now),
        "attempt": status.get("attempt", 0),
        "eta": status.get("eta"),
        "epoch": (status.get("progress") or {}).get("epoch"),
        "samples": (status.get("progress") or {}).get("samples"),
        "conditions": [
            {key: condition.get(key, "") for key in ("type", "status", "reason", "message")}
            for condition in status.get("conditions") or []
        ],
        "boards": [_board(node, power_nodes.get(node["name"])) for node in status.get("nodes") or []],
        "batch": _batch(status.get("batch")),
    }


def _batch(raw: Object | None) -> Document | None:
    """Return the choice among several batch sizes; None where a job has one."""
    if not raw:
        return None
    return {
        "chosen": raw.get("chosen"),
        "time_against_largest": raw.get("timeAgainstLargest"),
        "reason": raw.get("reason", ""),
        "sizes": [
            {
                "batch_size": each["batchSize"],
                "state": each.get("state", ""),
                "relative_time": each.get("relativeTime"),
                "reason": each.get("reason", ""),
            }
            for each in raw.get("sizes") or []
        ],
    }


def _board(node: Object, power_node: Object | None) -> Document:
    reported = ((power_node or {}).get("status") or {}).get("session") or {}
    fresh = reported if reported.get("uid") == node.get("session") else {}
    figures = ((power_node or {}).get("status") or {}).get("figures") or {}
    profiling = node.get("profiling") or {}
    live_w = figures.get("watts") if node.get("holds") else None
    return {
        "node": node["name"],
        "replica": node["replica"],
        "device": (((power_node or {}).get("status") or {}).get("device") or {}).get("name", ""),
        "phase": node.get("phase", ""),
        "mode": node.get("mode"),
        "human": human(node.get("mode")),
        "batch_size": node.get("batchSize"),
        "limit_w": node.get("limitWatts"),
        "power_w": live_w if live_w is not None else (node.get("observed") or {}).get("powerWatts"),
        "predicted": figures_of(node.get("predicted")),
        "observed": figures_of(node.get("observed")),
        "runner_up": node.get("runnerUp"),
        "reason": node.get("reason"),
        "message": node.get("message", ""),
        "profile": node.get("profile"),
        "modes_tried": profiling.get("measured", 0),
        "modes_at_most": profiling.get("planned"),
        "profiling_s": profiling.get("seconds", 0.0),
        "steps": (node.get("training") or {}).get("steps", 0),
        "energy_j": node.get("energyJoules", 0.0),
        "violations": node.get("violations", 0),
        "tried": trials(Samples.model_validate((fresh.get("result") or {}).get("samples") or {})),
    }


def figures_of(raw: Object | None) -> Document | None:
    """Return time and power with their ±, two standard deviations."""
    if not raw:
        return None
    step_s, step_std = raw.get("stepSeconds"), raw.get("stepStdSeconds")
    power_w, power_std = raw.get("powerWatts"), raw.get("powerStdWatts")
    return {
        "step_s": step_s,
        "step_pm_s": None if step_std is None else 2 * step_std,
        "power_w": power_w,
        "power_pm_w": None if power_std is None else 2 * power_std,
    }


def trials(samples: Samples) -> list[Document]:
    """Return measured modes in the order in which they were tried."""
    return [
        {
            "mode": str(sample.mode),
            "human": sample.mode.human,
            "step_s": sample.step_s,
            "power_w": sample.power_w,
            "unsafe": sample.unsafe,
        }
        for sample in samples.samples()
    ]


def front_points(front: Front) -> list[Document]:
    """Return the predicted front, fastest first; ± is two standard deviations.

    What was measured since may have shown a point to be worse than a faster one; such a point is left out.
    """
    lowest_w = list(accumulate(front.power_watts, min, initial=math.inf))
    return [
        {
            "mode": str(mode),
            "human": mode.human,
            "step_s": front.step_seconds[place],
            "step_pm_s": 2 * front.step_std_seconds[place],
            "power_w": front.power_watts[place],
            "power_pm_w": 2 * front.power_std_watts[place],
        }
        for place, mode in enumerate(front.modes())
        if front.power_watts[place] < lowest_w[place]
    ]


def node_line(power_node: Object, node: Object | None, held_by: str, problem: str) -> Document:
    """Return a board as `nodes` shows it."""
    spec, status = power_node.get("spec") or {}, power_node.get("status") or {}
    session, policy = status.get("session") or {}, spec.get("policy") or {}
    envelope = spec.get("session") or {}
    serves = bool(envelope) and session.get("uid") == envelope.get("uid")
    return {
        "node": power_node["metadata"]["name"],
        "device": (status.get("device") or {}).get("name", ""),
        "model": (status.get("device") or {}).get("model", ""),
        "modes": (status.get("capabilities") or {}).get("modes", 0),
        "agent": (status.get("agent") or {}).get("version", ""),
        "usable": not problem,
        "problem": problem,
        "job": held_by or None,
        "phase": session.get("phase") if serves else None,
        "power_w": (status.get("figures") or {}).get("watts"),
        "limit_w": (envelope.get("limits") or {}).get("powerWatts"),
        "policy_w": policy.get("maxWatts"),
        "mode": session.get("mode") if serves else None,
        "human": human(session.get("mode") if serves else None),
        "annotations": {
            name: value
            for name, value in (((node or {}).get("metadata") or {}).get("annotations") or {}).items()
            if name.startswith("powertrain.io/")
        },
    }


def profile_line(raw: Object, now: datetime) -> Document:
    """Return a profile as `profiles` shows it."""
    spec, status, metadata = raw["spec"], raw.get("status") or {}, raw["metadata"]
    device = spec.get("device") or {}
    error = spec.get("validationError") or {}
    corrected = spec.get("corrected") or {}
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "state": "stale" if corrected.get("stale") else "corrected" if corrected else "measured",
        "workload": spec["workload"],
        "batch_size": spec.get("batchSize", 1),
        "device": device.get("name", ""),
        "l4t": device.get("l4t", ""),
        "strategy": spec.get("strategy", ""),
        "reference": spec.get("reference"),
        "modes": len(Samples.model_validate(spec.get("samples") or {})),
        "front": len(Front.model_validate(spec.get("front") or {})),
        "time_error_percent": error.get("timePercent"),
        "power_error_percent": error.get("powerPercent"),
        "node": spec.get("node", ""),
        "uses": status.get("uses", 0),
        "age_s": _age_s({"creationTimestamp": spec.get("measuredAt") or metadata.get("creationTimestamp")}, now),
    }


def choice(board: Document, front: Sequence[Document], job: TrainingJob) -> Document:
    """Return why a board has its mode: the choice beside its runner-up, and which modes were out of the question."""
    by_mode = {point["mode"]: point for point in front} | {each["mode"]: each for each in board["tried"]}
    limit_w = board["limit_w"]
    above = [point for point in front if limit_w is not None and point["power_w"] > limit_w]
    return {
        **board,
        "chosen": by_mode.get(board["mode"] or ""),
        "second": by_mode.get(board["runner_up"] or ""),
        "front": list(front),
        "excluded_above_limit": len(above),
        "excluded_unsafe": [each for each in board["tried"] if each["unsafe"]],
        "risk": job.spec.risk,
    }


def human(mode: str | None) -> str:
    """Return a mode in its short form."""
    return PowerMode.parse(mode).human if mode else ""


def _age_s(metadata: Object, now: datetime) -> float | None:
    created = metadata.get("creationTimestamp")
    if not created:
        return None
    return (now - datetime.fromisoformat(str(created).replace("Z", "+00:00"))).total_seconds()
