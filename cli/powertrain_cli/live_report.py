"""The report of a live `tune`, and the lines that it ends with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from powertrain import __version__
from powertrain.api.v1alpha1 import Front, Samples, SessionSpec, SessionStatus
from powertrain.session_history import SessionHistory
from powertrain_agent.hardware.board import Board as HardwareBoard
from powertrain_cli.report import builder, summary, timelines
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
        summary=summary.of_boards(boards),
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
    """Return the last lines of a run: the choice and why, and its figures beside those of other modes."""
    board = report.boards[0]
    if board.chosen is None:
        yield "chosen     nothing: the training ended before a mode was chosen"
        return
    yield f"chosen     {board.chosen.human} ({board.chosen.mode})"
    yield f"why        {board.message}"
    if board.reference:
        yield f"reference  {board.reference}"
    rows: list[tuple[str, ...]] = [("", "ms a step", "W", "speed", "energy", "")]
    for name, point in (("predicted", board.predicted), ("observed", board.observed)):
        if point is not None:
            rows.append((name, *_figures(point), "", "", ""))
    rows += [_row(each, board.limit_w) for each in board.comparisons]
    yield from _aligned(rows)
    if board.comparisons:
        yield "speed and energy: of the chosen mode, as a multiple of that mode's"


def _row(each: Comparison, limit_w: float | None) -> tuple[str, ...]:
    above = f", above {limit_w:g} W" if each.keeps_limit is False else ""
    ratios = (f"{each.speed_ratio:.2f}×", f"{each.energy_ratio:.2f}×")
    return (f"{each.name}", *_figures(each.point), *ratios, f"{each.point.basis.value}{above}")


def _figures(point: Point) -> tuple[str, str]:
    return f"{point.step_s * 1e3:.1f}", f"{point.power_w:.1f}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return rows as lines: the first and the last column on the left, figures on the right of theirs."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        figures = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *figures, row[-1]]).rstrip()
