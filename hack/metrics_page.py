"""The page of metrics, from the tables that agent and operator themselves use."""

from __future__ import annotations

from collections.abc import Iterable

from powertrain_agent.health import PORT, STALE_AFTER_S
from powertrain_agent.metrics import METRICS, STEP_BUCKETS_S
from powertrain_kube.metrics import Metric
from powertrain_operator import settings
from powertrain_operator.runtime import metrics as operator

SILENCE = ", ".join(f"the {part} for {seconds:g} s" for part, seconds in STALE_AFTER_S.items())
DEFAULT = settings.Settings()
COLUMNS = "| name | type | labels | meaning |\n|---|---|---|---|\n"
AGENT = f"""# Metrics

Units are in the names. What is not known is absent rather than zero: alert with `absent()` where that matters.

## Agent

The agent serves `/metrics` and `/healthz` on port {PORT} (`--metrics-port`).

`/healthz` answers 503 when a part is silent ({SILENCE}), or when a thread of the
link to the API server has died. An agent in that state also lets its Lease run out.

{COLUMNS}"""
STEPS = f"""
Buckets of the step time: {", ".join(f"{bound:g}" for bound in STEP_BUCKETS_S)} s. The label `job` is
`<namespace>/<name>` of the TrainingJob; the series of the last few jobs are kept.
"""
OPERATOR = f"""
## Operator

The operator serves `/metrics` and `/healthz` on port {settings.PORT} (`--metrics-port`).

`/healthz` answers 503 when the worker is silent for {DEFAULT.worker_stale_s:g} s, a key is due for
{DEFAULT.queue_stale_s:g} s, nobody at the API server has answered for {DEFAULT.api_stale_s:g} s, or a watch has
not shown for {DEFAULT.watch_stale_s:g} s what a list or an own write proved to
exist. An operator that waits for the Lease is healthy.

{COLUMNS}"""
RECONCILES = f"""
Buckets of a reconcile: {", ".join(f"{bound:g}" for bound in operator.RECONCILE_BUCKETS_S)} s.
"""


def metrics_page() -> str:
    """Return the page."""
    return AGENT + _rows(METRICS) + STEPS + OPERATOR + _rows(operator.METRICS) + RECONCILES


def _rows(metrics: Iterable[Metric]) -> str:
    return "".join(
        f"| `{each.exposed_name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |\n"
        for each in metrics
    )
