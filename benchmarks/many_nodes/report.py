"""The promises of the benchmark with many nodes, its tables and its curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .measurement import Figures

MOST_P99_S, MOST_MIB = 2.0, 250.0
# What one job may cost the API server, figures every 10 s for 30 s included.
MOST_WRITES = 40.0
# Linear: the last size costs no more per job than this many times the first.
MOST_GROWTH = 1.3
# A load that leaves too few boards free measures only the lucky jobs.
LEAST_WITH_FREE_NODE = 0.9


def missed(found: Sequence[Figures]) -> list[str]:
    """Return the promises that were broken."""
    return [f"{each.size.nodes} nodes: {words}" for each in found for words in _missed(each)] + list(_not_linear(found))


def _missed(each: Figures) -> Iterator[str]:
    if each.p99_s >= MOST_P99_S:
        yield f"p99 {each.p99_s:.2f} s, promised < {MOST_P99_S:g} s"
    if each.peak_mib >= MOST_MIB:
        yield f"{each.peak_mib:.0f} MiB, promised < {MOST_MIB:g} MiB"
    if each.all_writes_per_job >= MOST_WRITES:
        yield f"{each.all_writes_per_job:.1f} writes a job, promised < {MOST_WRITES:g}"
    # Under a PowerBudget two reconcilers write a PowerNode; one that has an old version tries again, which counts here.
    if each.errors and each.size.site_watts is None:
        yield f"{each.errors:g} reconciles failed, promised 0"
    if each.unseen_decisions:
        yield f"{each.unseen_decisions} decisions were never seen, so p99 does not hold for all jobs"
    if each.jobs_with_free_node < LEAST_WITH_FREE_NODE * each.size.jobs:
        yield f"only {each.jobs_with_free_node} of {each.size.jobs} jobs found a free node"


def _not_linear(found: Sequence[Figures]) -> Iterator[str]:
    if len(found) < 2:
        return
    first, last = found[0], found[-1]
    for what, before, after in (
        ("CPU", first.cpu_s_per_job, last.cpu_s_per_job),
        ("writes", first.all_writes_per_job, last.all_writes_per_job),
    ):
        if after > MOST_GROWTH * before:
            sizes = f"from {first.size.nodes} to {last.size.nodes} nodes"
            yield f"{what} a job grew {after / before:.2f} times {sizes}, promised at most {MOST_GROWTH:g} times"


def verdict(broken: Sequence[str]) -> str:
    """Return in words whether the promises were kept."""
    if not broken:
        return "Every promise was kept."
    return "\n".join(["Not kept:", "", *(f"- {words}" for words in broken)])


def table(found: Sequence[Figures]) -> str:
    """Return what was measured as Markdown, with the ratios to the smallest size."""
    lines = [
        "| nodes | jobs (per s) | p50 ms | p99 ms | most ms | RSS MiB | CPU s a job | ratio | writes a job | ratio "
        "| idle CPU | load |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.size.nodes} | {f.size.jobs} ({f.size.per_s:g}) | {1e3 * f.p50_s:.0f} | {1e3 * f.p99_s:.0f} "
        f"| {1e3 * f.most_s:.0f} | {f.peak_mib:.0f} "
        f"| {f.cpu_s_per_job:.3f} | {f.cpu_s_per_job / found[0].cpu_s_per_job:.2f} "
        f"| {f.all_writes_per_job:.1f} | {f.all_writes_per_job / found[0].all_writes_per_job:.2f} "
        f"| {f.idle_cpu_share:.1%} | {f.load_average:.1f} |"
        for f in found
    ]
    return "\n".join(lines)


def writes(last: Figures) -> str:
    """Return what one job writes, by kind."""
    lines = ["| operator's writes | a job | what for |", "|---|---|---|"]
    lines += [f"| {kind} | {count:.1f} | {_WHAT_FOR.get(kind, '')} |" for kind, count in last.writes_per_job.items()]
    return "\n".join(lines)


_WHAT_FOR = {
    "Event create": "claimed, chosen, completed, restored; beside the decisions",
    "Job create": "once per attempt",
    "Node apply": "annotations: job, budget and mode; all gone",
    "PowerNode patch": "envelope, its pods, the release, the empty envelope",
    "PowerProfile apply": "what was measured, uses, sources",
    "TrainingJob apply": "finalizer on, finalizer off",
    "TrainingJob patch status": "each decision of the agent; figures alone wait for 10 s",
}


def beside(last: Figures) -> str:
    """Return where the work is: reconciles, other processes, replayed writes."""
    lines = ["| reconciles | a job | ms each |", "|---|---|---|"]
    lines += [
        f"| {kind} | {count:.1f} | {1e3 * last.seconds_per_reconcile[kind]:.1f} |"
        for kind, count in last.reconciles_per_job.items()
    ]
    lines += ["", "| beside it | |", "|---|---|"]
    lines += [f"| CPU s a job: {name} | {value:.3f} |" for name, value in last.other_cpu_s_per_job.items()]
    lines += [f"| writes: {kind} | {count} |" for kind, count in last.replayed_writes.items()]
    lines += [
        f"| KiB of a PowerNode with a session | {last.power_node_kib:.1f} |",
        f"| jobs with a free node | {last.jobs_with_free_node} of {last.size.jobs} |",
        f"| most nodes in use | {last.most_busy_nodes} of {last.size.nodes} |",
        f"| failed reconciles | {last.errors:g} |",
    ]
    if last.size.site_watts is not None:
        lines += [
            f"| the PowerBudget over all nodes | {last.size.site_watts:g} W |",
            f"| times that its watts were shared out | {last.resharings} |",
            f"| shares written for each of these | {last.share_writes / max(1, last.resharings):.1f} |",
        ]
    return "\n".join(lines)


def curve(found: Sequence[Figures]) -> str:
    """Return two small curves as SVG: the p99 of a decision, and CPU seconds per job, over the number of nodes."""
    parts = [
        _chart(0, "p99 of a decision, seconds", [(f.size.nodes, f.p99_s) for f in found], MOST_P99_S),
        _chart(330, "operator's CPU seconds a job", [(f.size.nodes, f.cpu_s_per_job) for f in found], None),
    ]
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 650 220" font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="650" height="220" fill="white"/>', *parts, "</svg>"]) + "\n"


def _chart(left: float, title: str, points: Sequence[tuple[float, float]], promised: float | None) -> str:
    most_x, most_y = max(x for x, _ in points), max([y for _, y in points] + ([promised] if promised else [])) * 1.1
    at = [(left + 45 + 250 * x / most_x, 180 - 140 * y / most_y, x, y) for x, y in points]
    # In the title: beside its line the promise would cover the figures of small values.
    words = f'; <tspan fill="#b71c1c">promised: below {promised:g}</tspan>' if promised else ""
    lines = [
        f'<text x="{left + 45}" y="24">{title}{words}</text>',
        f'<path d="M{left + 45} 40V180H{left + 300}" fill="none" stroke="#888"/>',
        f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in at)}" fill="none" stroke="#00796b" '
        'stroke-width="2"/>',
    ]
    if promised:
        y = 180 - 140 * promised / most_y
        lines.append(f'<path d="M{left + 45} {y:.1f}H{left + 300}" stroke="#b71c1c" stroke-dasharray="4 3"/>')
    halo = 'stroke="white" stroke-width="3" paint-order="stroke"'  # figures stay readable on a line
    for x, y, nodes, value in at:
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#00796b"/>')
        lines.append(f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle" {halo}>{value:.3g}</text>')
        lines.append(f'<text x="{x:.1f}" y="196" text-anchor="middle">{nodes:g}</text>')
    lines.append(f'<text x="{left + 172}" y="212" text-anchor="middle">nodes</text>')
    return "\n".join(lines)
