"""Where the runs of a batch study may go: to no node that has a PowerNode, whatever the template says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from powertrain_operator import names, node_view
from powertrain_operator.policies import selects

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Nodes that are named where none could run a study.
MAX_NAMED = 10


def keep_off(pod: Object, boards: Iterable[str]) -> None:
    """Add to a pod's spec what keeps it off the boards, which have trainings to measure and power limits to keep.

    A board that has not joined yet is known by its label; a template that says where it runs may use that node.
    """
    is_placed = any(pod.get(field) for field in ("nodeName", "nodeSelector", "affinity"))
    label = {"key": names.JETSON, "operator": "NotIn", "values": ["true"]}
    # The API server takes one name for each requirement; all of them must hold.
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in sorted(boards)]
    if is_placed and not fields:
        return
    affinity = {**(pod.get("affinity") or {})}
    of_nodes = {**(affinity.get("nodeAffinity") or {})}
    terms = (of_nodes.get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    of_nodes[REQUIRED] = {
        "nodeSelectorTerms": [_stricter(term, [] if is_placed else [label], fields) for term in terms]
    }
    pod["affinity"] = {**affinity, "nodeAffinity": of_nodes}


def _stricter(term: Object, expressions: list[Object], fields: list[Object]) -> Object:
    both = {
        "matchExpressions": [*(term.get("matchExpressions") or []), *expressions],
        "matchFields": [*(term.get("matchFields") or []), *fields],
    }
    return {**term, **{name: value for name, value in both.items() if value}}


def why_nowhere(template: Object, nodes: Iterable[Object], boards: frozenset[str]) -> str:
    """Return why no node can take a run, empty if one could. A template's own affinity is left to the scheduler."""
    spec = template.get("spec") or {}
    needs = node_view.needs("", {}, template)
    is_placed = any(spec.get(field) for field in ("nodeName", "nodeSelector", "affinity"))
    reasons = {node["metadata"]["name"]: _unfit(node, spec, needs, is_placed, boards) for node in nodes}
    if not reasons or not all(reasons.values()):
        return ""
    reasons_by_node = [f"{name}: {reason}" for name, reason in sorted(reasons.items())]
    more = f"; and {len(reasons_by_node) - MAX_NAMED} more" if len(reasons_by_node) > MAX_NAMED else ""
    listed = "; ".join(reasons_by_node[:MAX_NAMED]) + more
    return f"no node can take a run ({listed}); a study needs a node without an agent of PowerTrain"


def _unfit(node: Object, spec: Object, needs: node_view.Needs, is_placed: bool, boards: frozenset[str]) -> str:
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    if metadata["name"] in boards:
        return "a board, which takes TrainingJobs only"
    if spec.get("nodeName") not in (None, "", metadata["name"]):
        return f"nodeName is {spec['nodeName']}"
    if not is_placed and labels.get(names.JETSON) == "true":
        return f"a board by its label {names.JETSON}"
    if not selects(dict(needs.selector), labels):
        return "labels do not match the nodeSelector"
    if (node.get("spec") or {}).get("unschedulable"):
        return "cordoned"
    taint = node_view.untolerated((node.get("spec") or {}).get("taints") or [], needs.tolerations)
    return f"taint {taint} is not tolerated" if taint else ""
