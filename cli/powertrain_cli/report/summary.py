"""One sentence for the head of a report: what was achieved, how the cap was used, and whether limits were kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from powertrain.api.v1alpha1 import PowerBudget
from powertrain_cli.report import gains
from powertrain_cli.report.document import Board


def of_boards(boards: Sequence[Board]) -> str:
    """Return in one sentence what was achieved, and whether the limit was kept."""
    if not boards:
        return "No board yet."
    parts = []
    for each in boards:
        words = "; ".join(filter(None, (_gain(each), _limit_words(each)))) or each.message or "nothing measured yet"
        parts.append(f"{each.node}: {words}" if len(boards) > 1 else words[0].upper() + words[1:])
    return ". ".join(parts) + "."


def of_budget(budget: PowerBudget) -> str:
    """Return in one sentence how the cap is used, whether it was kept, and what the sharing gains."""
    status = budget.status
    parts = []
    if status.drawn_watts is not None and status.cap_watts is not None:
        parts.append(f"{len(status.boards)} boards take {status.drawn_watts:.0f} of {status.cap_watts:g} W")
    cap_words = "the cap was never exceeded" if not status.exceeded else f"the cap was exceeded {status.exceeded} times"
    parts.append(cap_words)
    forecast = status.forecast
    if forecast is not None and forecast.seconds:
        left = str(timedelta(seconds=round(forecast.seconds)))
        words = f"all jobs end in {left}"
        if forecast.equal_seconds is not None:
            ratio = gains.times(forecast.equal_seconds / forecast.seconds)
            words += f"; equal shares would take {ratio} as long (predicted)"
        parts.append(words)
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:] + "."


def _gain(each: Board) -> str:
    """Name the preset that somebody with this limit would set."""
    rivals = [other for other in each.comparisons if other.name.endswith("preset")]
    by_watts = [(float(other.name.split()[0]), other) for other in rivals]
    within = [pair for pair in by_watts if each.limit_w is None or pair[0] <= each.limit_w]
    if not within:
        return ""
    _, best = max(within, key=lambda pair: pair[0])
    return f"{gains.times(best.speed_ratio)} as fast as NVIDIA's {best.name} ({best.point.basis.value})"


def _limit_words(each: Board) -> str:
    if each.limit_w is None:
        return ""
    if each.violations:
        return f"above {each.limit_w:g} W in {each.violations} guard windows or readings"
    return f"no guard window above {each.limit_w:g} W"
