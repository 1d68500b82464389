"""What a job's modes gain against NVIDIA's presets and MAXN, for `status` and `explain`."""

from __future__ import annotations

from powertrain.api.v1alpha1 import Front, Samples, TrainingJob
from powertrain_cli.jobs import documents
from powertrain_cli.jobs.connection import Connection
from powertrain_cli.jobs.documents import Document
from powertrain_kube import Object


class Gains:
    """Says what was gained, board by board; a picture that repaints fits the model once for each choice."""

    def __init__(self, cluster: Connection) -> None:
        self._cluster = cluster
        self._sentences: dict[tuple[str, str, int], tuple[str, str | None]] = {}

    def with_gains(self, document: Document, raw: Object, power_nodes: dict[str, Object]) -> Document:
        """Return the document of `status` with the gain and the reference of each board that has its mode."""
        job = TrainingJob.model_validate(raw)
        boards = []
        for board in document["boards"]:
            gained, reference = self._of(job, board, power_nodes.get(board["node"]))
            boards.append({**board, "gained": gained, "reference": reference})
        return {**document, "boards": boards}

    def _of(self, job: TrainingJob, board: Document, power_node: Object | None) -> tuple[str, str | None]:
        if not board["mode"] or board["phase"] == "Profiling":
            return "", None
        key = (board["node"], board["mode"], board["modes_tried"])
        if key not in self._sentences:
            self._sentences[key] = self._fit(job, board, power_node)
        return self._sentences[key]

    def _fit(self, job: TrainingJob, board: Document, power_node: Object | None) -> tuple[str, str | None]:
        from powertrain_cli.jobs.explain import result_of
        from powertrain_operator.node_view import NodeView
        from powertrain_operator.policies import SitePolicy

        view = NodeView(board["node"], None, power_node, False, SitePolicy())
        result = result_of(self._cluster, job, board, power_node, view)
        samples = Samples.model_validate(result.get("samples") or {})
        measured = {**board, "tried": documents.trials(samples)}
        points = documents.front_points(Front.model_validate(result.get("front") or {}))
        return sentence(documents.choice(measured, points, job), samples), result.get("reference")


def sentence(board: Document, samples: Samples) -> str:
    """Return what the chosen mode gains against NVIDIA's presets, by the model of what was measured."""
    from powertrain_cli.report import gains
    from powertrain_cli.report.document import Basis, Point

    point = board["chosen"]
    if point is None or not point["step_s"]:
        return ""
    chosen = Point(basis=Basis.MEASURED, **{key: point[key] for key in ("mode", "human", "step_s", "power_w")})
    return gains.sentence(chosen, gains.preset_points(board["device"], samples.samples()), board["limit_w"])
