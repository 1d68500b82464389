"""The write of a PowerNode's spec: as a whole, and for one version of the object where a share is in it."""

from __future__ import annotations

from powertrain.api.base import API_VERSION
from powertrain.api.v1alpha1 import PowerNodeSpec, SessionSpec
from powertrain_kube import Object
from powertrain_operator.cache import Cache
from powertrain_operator.node_view import NodeView
from powertrain_operator.observation import version_of
from powertrain_operator.plan import ENVELOPE_MANAGER, Apply


def spec_write(cache: Cache, board: NodeView, spec: PowerNodeSpec) -> list[Apply]:
    """Return the write of a spec, if it is another one. A session's prior, which is packed away, stays as it is.

    A write that comes late must not bring an old share back: with shares it is for the version that was looked at.
    """
    present = PowerNodeSpec.model_validate(board.spec)
    if spec == present:
        return []
    if spec.session is not None and present.session is not None and spec.session.uid == present.session.uid:
        whole = cache.get("PowerNode", board.name) or {}
        prior = SessionSpec.model_validate(whole["spec"]["session"]).prior
        spec = spec.model_copy(update={"session": spec.session.model_copy(update={"prior": prior})})
    power_node = board.power_node or {}
    uid = power_node.get("metadata", {}).get("uid", "")
    version = version_of(power_node) if spec.shares or present.shares else 0
    return [Apply(power_node_body(board, spec), uid=uid, version=version, manager=ENVELOPE_MANAGER)]


def power_node_body(board: NodeView, spec: PowerNodeSpec) -> Object:
    """Return a PowerNode, owned by its Node."""
    node = (board.node or {})["metadata"]
    reference = {"apiVersion": "v1", "kind": "Node", "name": board.name, "uid": node["uid"]}
    return {
        "apiVersion": API_VERSION,
        "kind": "PowerNode",
        "metadata": {"name": board.name, "ownerReferences": [reference]},
        "spec": spec.wire(),
    }
