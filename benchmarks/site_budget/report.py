"""The comparison as Markdown, and which promises were missed."""

from __future__ import annotations

from benchmarks.site_budget.measurement import (
    BOARDS,
    MANY,
    MANY_POINTS,
    OTHERS,
    SMALL,
    SMALL_POINTS,
    TIGHTNESS,
    Figures,
)

LEAST_GAIN, AT = 1.5, 0.4
MOST_GAP, MOST_MS = 0.03, 50.0


def tables(figures: Figures) -> str:
    """Return the tables."""
    heads = " | ".join(f"cap at {tightness:.0%}" for tightness in TIGHTNESS)
    lines = [
        f"{figures.fleets} random fleets of {BOARDS} boards per cell; how many times better, median (10th to 90th).",
        "",
        f"| against | what | {heads} |",
        f"|---|---|{'---|' * len(TIGHTNESS)}",
    ]
    for other in OTHERS:
        for what in dict.fromkeys(gain.what for gain in figures.gains):
            cells = [g for g in figures.gains if (g.other, g.what) == (other, what)]
            texts = [f"{g.median:.2f} ({g.low:.2f} to {g.high:.2f})" for g in cells]
            lines.append(f"| {other} | {what} | {' | '.join(texts)} |")
    lines += [
        "",
        f"Worst distance from the best of all combinations ({SMALL} boards, {SMALL_POINTS} points each): makespan "
        f"{figures.makespan_gap:.2%}, throughput {figures.throughput_gap:.2%}.",
        f"Processor time of one plan for {MANY} boards with {MANY_POINTS} points: "
        + ", ".join(f"{goal} {ms:.0f} ms" for goal, ms in figures.plan_ms.items())
        + ".",
    ]
    return "\n".join(lines)


def missed(figures: Figures) -> list[str]:
    """Return the promises that were missed."""
    broken = []
    gain = figures.median("equal", AT, "makespan, shares kept")
    if gain < LEAST_GAIN:
        broken.append(f"makespan {gain:.2f} times shorter than equal, not {LEAST_GAIN}")
    for what, gap in (("makespan", figures.makespan_gap), ("throughput", figures.throughput_gap)):
        if gap > MOST_GAP:
            broken.append(f"{what} {gap:.1%} from the best combination, not {MOST_GAP:.0%}")
    broken += [f"{goal} took {ms:.0f} ms, not {MOST_MS:.0f}" for goal, ms in figures.plan_ms.items() if ms > MOST_MS]
    return broken
