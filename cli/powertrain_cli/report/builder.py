"""Builds the report of boards from what the API tells of them: samples, front, figures and a time line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from powertrain.api.v1alpha1 import Figures, Front, Samples
from powertrain.modes import PowerMode
from powertrain.samples import Sample
from powertrain_cli.report import gains
from powertrain_cli.report.document import (
    Basis,
    Board,
    BoardFacts,
    Comparison,
    Fleet,
    FleetBoard,
    Point,
    Timeline,
    Trial,
)

RUNNER_UP = "runner-up"


@dataclass(frozen=True)
class Source:
    """What is known of one board."""

    node: str
    timeline: Timeline
    samples: Samples
    front: Front
    facts: BoardFacts
    mode: str | None = None
    runner_up: str | None = None
    predicted: Figures | None = None
    observed: Figures | None = None
    limit_w: float | None = None
    phase: str = ""
    message: str = ""
    strategy: str = ""
    reference: str = ""
    profiling_s: float = 0.0
    energy_j: float | None = None
    violations: int = 0


def board(source: Source) -> Board:
    """Return one board of the report."""
    samples = source.samples.samples()
    points = {sample.mode: _measured_point(sample) for sample in samples if not sample.unsafe}
    front = tuple(_front(source.front, set(points)))
    by_mode = {point.mode: point for point in front} | {str(mode): point for mode, point in points.items()}
    observed = figures(source.mode, source.observed, Basis.MEASURED)
    # Others are predicted from what was measured in windows, so the choice is compared by its own window if it has one.
    measured = next((point for mode, point in points.items() if str(mode) == source.mode), None)
    chosen = measured or observed or by_mode.get(source.mode or "")
    runner_up = by_mode.get(source.runner_up or "") if source.runner_up != source.mode else None
    return Board(
        node=source.node,
        facts=source.facts,
        phase=source.phase,
        message=source.message,
        batch_size=source.samples.batch_size if samples else None,
        limit_w=source.limit_w,
        strategy=source.strategy,
        reference=source.reference,
        chosen=chosen,
        runner_up=runner_up,
        predicted=figures(source.mode, source.predicted, Basis.PREDICTED),
        observed=observed,
        trials=tuple(_trial(sample, source.limit_w, source.timeline) for sample in samples),
        front=front,
        comparisons=_comparisons(source, samples, chosen, runner_up),
        profiling_s=source.profiling_s,
        energy_j=source.energy_j,
        violations=source.violations,
        timeline=source.timeline,
    )


def figures(mode: str | None, raw: Figures | None, basis: Basis) -> Point | None:
    """Return figures of a mode as a point; None unless both time and power are known."""
    if mode is None or raw is None or not raw.step_seconds or raw.power_watts is None:
        return None
    return Point(
        mode=mode,
        human=PowerMode.parse(mode).human,
        step_s=raw.step_seconds,
        step_pm_s=None if raw.step_std_seconds is None else 2 * raw.step_std_seconds,
        power_w=raw.power_watts,
        power_pm_w=None if raw.power_std_watts is None else 2 * raw.power_std_watts,
        basis=basis,
    )


def fleet(name: str, boards: Sequence[Board]) -> Fleet | None:
    """Return several boards against the sum of their limits; None for one board, or without time lines."""
    lines = [each.timeline for each in boards]
    if len(boards) < 2 or not all(line.at_s for line in lines):
        return None
    at_s = max(lines, key=lambda line: len(line.at_s)).at_s
    rows = [
        FleetBoard(
            node=each.node,
            power_w=tuple(_at(line, line.power_mean_w, moment) for moment in at_s),
            share_w=tuple(_at(line, line.limit_w, moment) for moment in at_s),
        )
        for each, line in zip(boards, lines, strict=True)
    ]
    caps = [[row.share_w[place] for row in rows] for place in range(len(at_s))]
    totals = tuple(None if None in shares else sum(share or 0.0 for share in shares) for shares in caps)
    return Fleet(name=name, at_s=at_s, cap_w=totals, boards=tuple(rows))


def _at(line: Timeline, column: Sequence[float | None], moment: float) -> float | None:
    before = [value for at_s, value in zip(line.at_s, column, strict=True) if at_s <= moment]
    return before[-1] if before else None


def _measured_point(sample: Sample) -> Point:
    mode = sample.mode
    return Point(mode=str(mode), human=mode.human, step_s=sample.step_s, power_w=sample.power_w, basis=Basis.MEASURED)


def _front(front: Front, measured: set[PowerMode]) -> Iterable[Point]:
    for place, mode in enumerate(front.modes()):
        yield Point(
            mode=str(mode),
            human=mode.human,
            step_s=front.step_seconds[place],
            step_pm_s=2 * front.step_std_seconds[place],
            power_w=front.power_watts[place],
            power_pm_w=2 * front.power_std_watts[place],
            basis=Basis.MEASURED if mode in measured else Basis.PREDICTED,
        )


def _trial(sample: Sample, limit_w: float | None, line: Timeline) -> Trial:
    human = sample.mode.human
    text = next((mark.text for mark in line.marks if human in mark.text), "")
    reason = text.partition(f"{human}: ")[2] or text  # the row names the mode already
    over = limit_w is not None and sample.power_w > limit_w
    return Trial(point=_measured_point(sample), reason=reason, over_limit=over, left_early=sample.unsafe)


def _comparisons(
    source: Source, samples: Sequence[Sample], chosen: Point | None, runner_up: Point | None
) -> tuple[Comparison, ...]:
    if chosen is None:
        return ()
    presets = gains.preset_points(source.facts.name, samples)
    compared = [gains.compare(chosen, gains.label(preset), point, source.limit_w) for preset, point in presets]
    if runner_up is not None:
        compared.append(gains.compare(chosen, RUNNER_UP, runner_up, source.limit_w))
    return tuple(compared)


def reference(name: str | None, version: str | None) -> str:
    """Return the reference that a profile started from, with the data that it was made from."""
    return f"{name} ({version})" if name and version else name or ""


def facts(status: Mapping[str, Any]) -> BoardFacts:
    """Return what a PowerNode's status tells of its board."""
    device, agent = status.get("device") or {}, status.get("agent") or {}
    return BoardFacts(
        name=device.get("name", ""),
        model=device.get("model", ""),
        module=device.get("module", ""),
        l4t=device.get("l4t", ""),
        core_policy=device.get("corePolicy", ""),
        total_rail=device.get("totalRail", ""),
        agent=agent.get("version", ""),
    )
