"""`powertrain doctor NODE`: the last self-check of a node's agent, as its PowerNode tells it. Nothing is written."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from powertrain.api.resources import POWER_NODES
from powertrain.api.v1alpha1 import PowerNode, PowerNodeStatus, SelfCheck
from powertrain_cli.errors import CliError, Exit
from powertrain_cli.jobs.connection import connected
from powertrain_cli.output import emit_json, stdout, table

TITLES = {
    "cores": "CPU cores",
    "cpu": "CPU clock",
    "gpu": "GPU clock",
    "emc": "memory clock",
    "power": "power sensors",
    "thermal": "temperatures",
    "tpc": "GPU power gating",
}
STALE_S = 24 * 3600.0


def show(node: str, kubeconfig: Path | None, as_json: bool) -> bool:
    """Print what a node's agent found on its board; returns whether PowerTrain can work there."""
    with connected(kubeconfig, None) as cluster:
        status = PowerNode.model_validate(cluster.get(POWER_NODES, node)).status
        now = cluster.api.now()
    check = status.self_check
    if check is None:
        version = status.agent.version or "unknown"
        raise CliError(
            f"the agent of {node} (release {version}) reports no self-check; update it, or run "
            "`powertrain-agent doctor` in its pod",
            Exit.ENVIRONMENT,
        )
    if as_json:
        emit_json({"node": node, "agent": status.agent.version, **_document(check)})
    else:
        _print(node, status, check, now)
    return check.works


def _document(check: SelfCheck) -> dict[str, Any]:
    return check.model_dump(mode="json")


def _print(node: str, status: PowerNodeStatus, check: SelfCheck, now: datetime) -> None:
    age_s = (now - datetime.fromisoformat(check.at)).total_seconds()
    rows = [
        [TITLES.get(each.knob, each.knob), "yes" if each.usable else "NO", each.shows, each.reason]
        for each in check.knobs
    ]
    if rows:
        table("", ["knob", "usable", "shows", "why not"], rows)
    lines = [f"{TITLES.get(each.knob, each.knob)}: {each.fix}" for each in check.knobs if each.fix]
    lines += [f"mount family for the chart: {check.mount_family}"] if check.mount_family else []
    lines += [f"hint: {hint}" for hint in check.hints]
    lines += [f"{node}: checked {_ago(age_s)} by the agent {status.agent.version}; nothing was written."]
    if age_s > STALE_S:
        lines.append("The agent checks when it starts and after each job; restart its pod for a new check.")
    for line in lines:
        stdout().print(line, markup=False, soft_wrap=True)
    stdout().print(check.verdict, markup=False, soft_wrap=True, style="bold")


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"
