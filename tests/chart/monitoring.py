"""What tests of monitoring share: the chart's rules, faster ones for tests, and which metrics need an event first."""

from __future__ import annotations

from pathlib import Path

import yaml

from powertrain_agent.metrics import METRICS as AGENT_METRICS
from powertrain_operator.runtime.metrics import METRICS as OPERATOR_METRICS

RULES = Path(__file__).resolve().parents[2] / "charts/powertrain/files/rules.yaml"
METRICS = (*AGENT_METRICS, *OPERATOR_METRICS)
BUDGET_ALERT, SENSOR_ALERT = "PowerTrainBudgetExceeded", "PowerTrainSensorMissing"
# What has labels is mostly born with its first event: these when something goes wrong ...
BORN_WITH_TROUBLE = {
    "powertrain_agent_silent_seconds",
    "powertrain_throttle_events_total",
    "powertrain_reconcile_errors_total",
    "powertrain_watch_repairs_total",
    "powertrain_api_writes_skipped_total",
    "powertrain_loop_failures_total",
    "powertrain_object_failing",
    # Agents that only observe have these.
    "powertrain_expected_speedup_ratio",
    "powertrain_expected_power_saving_ratio",
}
# ... these where there is a PowerBudget ...
BORN_WITH_A_BUDGET = {each.exposed_name for each in METRICS if each.exposed_name.startswith("powertrain_budget_")}
# ... and these when a job ends.
BORN_WITH_AN_END = {"powertrain_restores_total", "powertrain_observed_to_predicted_ratio"}


def missing(names: set[str]) -> set[str]:
    """Return the documented metrics that are not among the scraped names."""
    return {each.exposed_name for each in METRICS} - {name.removesuffix("_bucket") for name in names}


def hastened(factor: float, target: Path) -> Path:
    """Write the same rules with every `for` so many times shorter: how long an alert waits, not what it looks at."""
    seconds = {"s": 1, "m": 60}
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for rule in (rule for group in document["groups"] for rule in group["rules"] if "for" in rule):
        rule["for"] = f"{round(int(rule['for'][:-1]) * seconds[rule['for'][-1]] / factor)}s"
    target.write_text(yaml.safe_dump(document), encoding="utf-8")
    return target


def violations(node: str) -> str:
    """Return a query for how often a board exceeded a limit since Prometheus began to look."""
    return f'sum(increase(powertrain_violations_total{{node="{node}"}}[10m])) > 0'


def boards_in(state: str, alert: str = BUDGET_ALERT) -> str:
    """Return a query for the boards whose alert was in a state of late."""
    return f'count by (node) (count_over_time(ALERTS{{alertname="{alert}", alertstate="{state}"}}[5m]))'
