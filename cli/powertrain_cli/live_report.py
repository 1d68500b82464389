"""The report of a live `tune`, and the lines that it ends with."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from powertrain import __version__
from powertrain.api.v1alpha1 import Front, Samples, SessionSpec, SessionStatus
from powertrain.session_history import SessionHistory
from powertrain_agent.hardware.board import Board as HardwareBoard
from powertrain_cli.report import builder, timelines
from powertrain_cli.report.document import BoardFacts, Comparison, Point, Report


def report(status: SessionStatus | None, spec: SessionSpec, board: HardwareBoard, history: SessionHistory) -> Report:
    """Return the report of a run on this machine's board, or on a simulated one."""
    result = status.result if status else None
    identity = board.identity
    facts = BoardFacts(
        name=board.device.name if board.device else "",
        model=identity.model,
        module=identity.module,
        l4t=identity.l4t,
        agent=__version__,
    )
    source = builder.Source(
        node="this board",
        timeline=timelines.from_history(history, "the readings of this run"),
        samples=result.samples if result else Samples(),
        front=result.front if result else Front(),
        facts=facts,
        limit_w=spec.limits.power_watts,
        strategy=result.strategy if result else spec.plan.strategy,
        reference=builder.reference(result.reference, result.reference_version) if result else "",
        **({} if status is None else _of_status(status)),
    )
    boards = (builder.board(source),)
    return Report(
        name=spec.workload.name,
        workload=spec.workload.name,
        phase="Chosen" if status and status.mode else "",
        objective=spec.objective.value,
        limits=f"{spec.limits.power_watts:g} W",
        summary=builder.summary(boards),
        made_at=timelines.now_text(datetime.now(UTC)),
        versions={"powertrain": __version__},
        boards=boards,
    )


def _of_status(status: SessionStatus) -> dict[str, Any]:
    return {
        "mode": status.mode,
        "runner_up": status.runner_up,
        "predicted": status.predicted,
        "observed": status.observed,
        "phase": status.phase.value,
        "message": status.message,
        "profiling_s": status.profiling.seconds,
        "energy_j": status.energy_joules,
        "violations": status.violations,
    }


def conclusion(report: Report) -> Iterator[str]:
    """Return the last lines of a run: the choice, predicted and observed, and against other modes."""
    board = report.boards[0]
    if board.chosen is None:
        yield "no mode was chosen"
        return
    yield f"chosen     {board.chosen.human} ({board.chosen.mode})"
    if board.predicted is not None:
        yield f"predicted  {_words(board.predicted)}"
    if board.observed is not None:
        yield f"observed   {_words(board.observed)}"
    for each in board.comparisons:
        yield f"against    {each.name}: {_against(each)}"


def _words(point: Point) -> str:
    return f"{point.step_s * 1e3:.1f} ms a step, {point.power_w:.1f} W"


def _against(each: Comparison) -> str:
    other = f"{_words(each.point)} ({each.point.basis.value})"
    return f"{each.speed_ratio:.2f}× its speed, {each.energy_ratio:.2f}× its energy; {other}"
