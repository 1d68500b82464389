"""Every word that the operator says in conditions and Events is explained on the page about them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from powertrain.api.v1alpha1 import JobPhase, Stop

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/reference/conditions.md").read_text(encoding="utf-8")
# Words of Kubernetes and of other objects, not of our verdicts.
OTHERS = {
    "TrainingJob",
    "PowerNode",
    "PowerBudget",
    "PowerPolicy",
    "PowerProfile",
    "PriorityClass",
    "Node",
    "Queue",
    "Job",
    "Pod",
    "Normal",
    "Warning",
    "Ready",
}
OTHERS |= {"BudgetReachable", "StepSignal", "PowerSensor", "Running", "Unschedulable", "Profile"}
CAMEL = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+|[A-Z]{2,})*")


def words_of(path: Path) -> set[str]:
    """Every string in the code that looks like a type or a reason."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if CAMEL.fullmatch(text)}


def test_every_reason_is_explained() -> None:
    reasons = set().union(*(words_of(path) for path in (ROOT / "operator/powertrain_operator/reconcile").glob("*.py")))
    reasons |= {stop.value for stop in Stop} - {Stop.FAILED.value}
    assert len(reasons) > 30
    assert sorted(word for word in reasons - OTHERS if f"`{word}`" not in PAGE) == []


def test_every_reason_on_the_page_is_written_by_something() -> None:
    """Of the rows of tables, whose third column is the reason."""
    explained = set(re.findall(r"^\|[^|]*\| (?:True|False|Unknown)[^|]*\| `(\w+)` \|", PAGE, re.MULTILINE))
    rooms = ("operator/powertrain_operator", "node_agent/powertrain_agent", "core/powertrain")
    written = set().union(*(words_of(path) for room in rooms for path in (ROOT / room).rglob("*.py")))
    assert len(explained) > 30
    assert sorted(explained - written) == []


def test_every_phase_is_explained() -> None:
    assert [phase.value for phase in JobPhase if f"`{phase.value}`" not in PAGE] == []
