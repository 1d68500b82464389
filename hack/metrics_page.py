"""The page of the agent's metrics, from the table that the agent itself uses."""

from __future__ import annotations

from powertrain_agent.health import PORT, STALE_AFTER_S
from powertrain_agent.metrics import METRICS, STEP_BUCKETS_S

SILENCE = ", ".join(f"the {part} for {seconds:g} s" for part, seconds in STALE_AFTER_S.items())
HEAD = f"""# Metrics

The agent serves `/metrics` and `/healthz` on port {PORT} (`--metrics-port`). Units are in the names. What is not known
is absent rather than zero: alert with `absent()` where that matters.

`/healthz` answers 503 when a part is silent ({SILENCE}), or when a thread of the
link to the API server has died. An agent in that state also lets its Lease run out.

| name | type | labels | meaning |
|---|---|---|---|
"""

TAIL = f"""
Buckets of the step time: {", ".join(f"{bound:g}" for bound in STEP_BUCKETS_S)} s. The label `job` is
`<namespace>/<name>` of the TrainingJob; the series of the last few jobs are kept.
"""


def metrics_page() -> str:
    """Return the page."""
    rows = [
        f"| `{metric.shown}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.help} |"
        for metric in METRICS
    ]
    return HEAD + "\n".join(rows) + "\n" + TAIL
