"""Rules by promtool, and every query of the dashboards on a real Prometheus that scrapes a real operator and agents."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain.api.resources import POWER_BUDGETS, TRAINING_JOBS
from powertrain_agent.simulate import SimulatedBoard
from powertrain_agent.simulate.faults import Fault, FaultKind
from powertrain_cli.jobs.energy import QUERIES
from powertrain_devcluster.builds import prepare
from powertrain_devcluster.controlplane.control_plane import ControlPlane
from powertrain_devcluster.errors import MissingToolError
from powertrain_devcluster.fleet import Fleet
from powertrain_devcluster.testing.waits import wait_for
from powertrain_devcluster.tools import prometheus
from powertrain_devcluster.tools.prometheus import Prometheus, Target
from powertrain_kube import KubeApi

from .conftest import BOARDS, CHART, ROOT
from .monitoring import (
    BORN_WITH_AN_END,
    BORN_WITH_TROUBLE,
    BUDGET_ALERT,
    RULES,
    SENSOR_ALERT,
    boards_in,
    hastened,
    missing,
    violations,
)
from .test_accounts import ENDLESS, training

Object = dict[str, Any]
TESTS = Path(__file__).with_name("rules_test.yaml")
DASHBOARDS = sorted((CHART / "files/dashboards").glob("*.json"))
SENSOR = "curr*_input"
GRAFANA = {"$node": ".*", "$job": ".*", "$board": ".*", "$__rate_interval": "15s", "$__range": "1h"}


@pytest.fixture(scope="session")
def programs() -> Path:
    try:
        return prometheus.programs(prepare.Ready())
    except MissingToolError as error:
        pytest.skip(str(error))


WIDE: Object = {
    "apiVersion": "powertrain.io/v1alpha1",
    "kind": "PowerBudget",
    "metadata": {"name": "wide"},
    "spec": {"watts": 500},
}


def alerts() -> list[Object]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_the_rules_are_well_formed_and_every_alert_fires_when_it_should(programs: Path, tmp_path: Path) -> None:
    tests = tmp_path / "test.yaml"
    tests.write_text(TESTS.read_text(encoding="utf-8").replace("[RULES]", f"[{RULES}]"), encoding="utf-8")
    for arguments in (["check", "rules", str(RULES)], ["test", "rules", str(tests)]):
        result = subprocess.run([str(programs / "promtool"), *arguments], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def test_the_energy_of_a_job_is_that_of_its_minutes_and_of_a_node_all_that_it_took(
    programs: Path, tmp_path: Path
) -> None:
    """Two boards at 30 and 10 W for two hours; one has a job for half an hour, of which the first minute is missing."""
    counter = 'powertrain_energy_joules_total{node="%s", job="powertrain"}'
    series = [
        {"series": counter % "a", "values": "0+450x480"},
        {"series": counter % "b", "values": "0+150x480"},
        {"series": 'powertrain_session_info{node="a", job="team/x"}', "values": "1x120 stale"},
    ]
    expected = {"job": {'{job="team/x"}': 14.75}, "node": {'{node="a"}': 30, '{node="b"}': 10}}
    queries = [
        {
            "expr": QUERIES[name].format(since="1h" if name == "node" else "2h"),
            "eval_time": "2h",
            "exp_samples": [{"labels": labels, "value": wh} for labels, wh in values.items()],
        }
        for name, values in expected.items()
    ]
    tests = [{"interval": "15s", "input_series": series, "promql_expr_test": queries}]
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": [], "tests": tests}), encoding="utf-8")
    command = [str(programs / "promtool"), "test", "rules", str(tmp_path / "test.yaml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_documented_way_makes_a_rule_file_for_a_plain_prometheus(programs: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^sed .*rules\.yaml$", page, re.MULTILINE)
    written = tmp_path / "rules.yaml"
    subprocess.run(f"{command.rpartition('>')[0]} > {written}", shell=True, cwd=ROOT, check=True)
    subprocess.run([str(programs / "promtool"), "check", "rules", str(written)], capture_output=True, check=True)
    links = re.findall(r"runbook_url: (\S+)", written.read_text(encoding="utf-8"))
    assert len(links) == len(alerts())
    assert all(link.startswith("https://docs.site.example/runbooks/") for link in links)


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_has_a_severity_a_summary_a_runbook_and_tests_of_both_kinds(alert: Object) -> None:
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert alert["annotations"]["summary"]
    page = alert["annotations"]["runbook_url"].removeprefix("RUNBOOKS/")
    assert (ROOT / "docs/runbooks" / f"{page}.md").read_text(encoding="utf-8").startswith(f"# {alert['alert']}\n")
    cases = [case for test in yaml.safe_load(TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    verdicts = {bool(case.get("exp_alerts")) for case in cases if case["alertname"] == alert["alert"]}
    assert verdicts == {True, False}


def test_there_is_no_runbook_without_an_alert() -> None:
    pages = {alert["annotations"]["runbook_url"].removeprefix("RUNBOOKS/") for alert in alerts()}
    assert {path.stem for path in (ROOT / "docs/runbooks").glob("*.md")} == pages


def shown_panels(path: Path) -> list[Object]:
    """Return the panels of a dashboard that show something; a row is only a heading."""
    return [panel for panel in json.loads(path.read_text(encoding="utf-8"))["panels"] if panel["type"] != "row"]


def panels() -> Iterator[tuple[str, str]]:
    for path in DASHBOARDS:
        for panel in shown_panels(path):
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']}", target["expr"]


def documented() -> Iterator[tuple[str, str]]:
    """Return the queries of the page about energy that have a result while every board trains."""
    page = (ROOT / "docs/how-to/energy.md").read_text(encoding="utf-8")
    for query in re.findall(r"```promql\n(.*?)```", page, re.DOTALL):
        if " unless " not in query:
            yield "energy.md", query
    for name, query in QUERIES.items():
        yield f"powertrain energy: {name}", query.format(since="7d")


def variables() -> Iterator[tuple[str, str]]:
    for path in DASHBOARDS:
        for each in json.loads(path.read_text(encoding="utf-8"))["templating"]["list"]:
            if each["type"] == "query":
                match = re.fullmatch(r"label_values\((.*), (\w+)\)", each["query"])
                assert match is not None
                yield f"{path.stem}: ${each['name']}", f"count by ({match[2]}) ({match[1]})"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_explains_every_panel_and_leads_to_the_others(path: Path) -> None:
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    for panel in shown_panels(path):
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert all(target["legendFormat"] for target in panel["targets"])
    others = {f"/d/powertrain-{other.stem}" for other in DASHBOARDS if other != path}
    assert {link["url"] for link in dashboard["links"]} == others


def filled(expression: str) -> str:
    """Return a query with what Grafana puts in for its variables."""
    for variable, value in GRAFANA.items():
        expression = expression.replace(variable, value)
    return expression


def port(log: Path, event: str) -> int:
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    return int([line["port"] for line in lines if line["event"] == event][-1])


@pytest.fixture
def watched(kube: KubeApi, fleet: Fleet, test_namespace: str) -> Iterator[str]:
    """An endless training on all boards, under a PowerBudget that is no limit; gives the path of its TrainingJob."""
    path = TRAINING_JOBS.path(namespace=test_namespace)
    kube.create(POWER_BUDGETS.path(), WIDE)
    kube.create(path, training("watched", test_namespace, replicas=len(BOARDS), steps=ENDLESS))
    yield f"{path}/watched"
    kube.delete(f"{path}/watched")
    kube.delete(POWER_BUDGETS.path(WIDE["metadata"]["name"]))
    wait_for("the boards to be free", lambda: kube.get(path)["items"], lambda items: items == [], 90)


@pytest.fixture
def scrape(
    control_plane: ControlPlane, fleet: Fleet, programs: Path, watched: str, tmp_path: Path
) -> Callable[[Path], Prometheus]:
    """Make a Prometheus with a rule file that scrapes the fleet while it trains."""
    operator = Target(f"127.0.0.1:{port(fleet.logs / 'operator.log', 'serving')}", {"component": "operator"})
    agents = [
        Target(f"127.0.0.1:{port(fleet.logs / f'agent-{name}.log', 'metrics')}", {"component": "agent", "node": name})
        for name in BOARDS
    ]

    def new_prometheus(rules: Path) -> Prometheus:
        env, folder = control_plane.environment(), tmp_path / "prometheus"
        return Prometheus(programs, folder, [operator, *agents], [rules], env=env)

    return new_prometheus


def test_every_query_of_the_dashboards_returns_data_of_a_fleet_that_trains(
    scrape: Callable[[Path], Prometheus],
) -> None:
    queries = [*panels(), *variables(), *documented()]
    assert len(queries) > 30
    with scrape(RULES) as scraped:

        def empty() -> list[str]:
            return [f"{title}: {expression}" for title, expression in queries if not scraped.query(filled(expression))]

        wait_for("every query to return data", empty, lambda empty_queries: empty_queries == [], 150)
        # Nothing went wrong here, and no job has ended.
        assert missing(scraped.names()) - BORN_WITH_TROUBLE - BORN_WITH_AN_END == set()
        assert set(scraped.alerts()) == set()


def test_a_breach_of_a_budget_that_no_mode_can_end_fires_its_alert_for_that_board(
    kube: KubeApi, fleet: Fleet, watched: str, scrape: Callable[[Path], Prometheus], tmp_path: Path
) -> None:
    use = "powertrain:power_budget_use:ratio"
    board = SimulatedBoard.open(fleet.nodes.node_root(BOARDS[0]), time_scale=fleet.settings.time_scale)

    def boards(state: str) -> set[str]:
        return {each["metric"]["node"] for each in scraped.query(boards_in(state))}

    with scrape(hastened(12, tmp_path / "rules.yaml")) as scraped:
        wait_for("both boards to have a budget", lambda: len(scraped.query(use)), len(BOARDS).__eq__, 60)
        assert boards("firing") == set()
        wait_for("both to guard a mode", lambda: kube.get(watched)["status"]["phase"], "Running".__eq__, 150)
        # Something else on the board takes more than the budget leaves for even the lowest mode.
        board.inject(Fault(FaultKind.POWER_OFFSET, value=40.0))
        try:
            wait_for("the alert", lambda: boards("firing"), deadline_s=90)
            alerts_now = wait_for(
                "the job to say so",
                lambda: {each["type"]: each for each in kube.get(watched)["status"]["conditions"]}["BudgetMet"],
                lambda condition: condition["status"] == "False",
                60,
            )
        finally:
            board.clear(FaultKind.POWER_OFFSET)
        wait_for("the violations to be counted", lambda: scraped.query(violations(BOARDS[0])))
        assert BOARDS[0] in boards("pending")
        assert boards("firing") == {BOARDS[0]}
        assert scraped.alerts()[BUDGET_ALERT]["severity"] == "critical"
        assert alerts_now["reason"] == "BudgetUnreachable"
        assert BOARDS[0] in alerts_now["message"]
        assert BOARDS[1] not in alerts_now["message"]


def test_a_board_that_loses_its_sensor_fires_its_alert_and_shows_no_old_power(
    fleet: Fleet, watched: str, scrape: Callable[[Path], Prometheus], tmp_path: Path
) -> None:
    power = 'powertrain_power_watts{rail="total"}'
    board = SimulatedBoard.open(fleet.nodes.node_root(BOARDS[0]), time_scale=fleet.settings.time_scale)

    def nodes(query: str) -> set[str]:
        return {each["metric"]["node"] for each in scraped.query(query)}

    with scrape(hastened(12, tmp_path / "rules.yaml")) as scraped:
        wait_for("both boards to give readings", lambda: nodes(power), set(BOARDS).__eq__, 60)
        assert nodes(boards_in("firing", SENSOR_ALERT)) == set()
        board.inject(Fault(FaultKind.FAIL_READ, SENSOR))
        try:
            wait_for("the alert", lambda: nodes(boards_in("firing", SENSOR_ALERT)), deadline_s=60)
            assert nodes(boards_in("firing", SENSOR_ALERT)) == {BOARDS[0]}
            assert nodes(power) == {BOARDS[1]}
            failures = f'powertrain_power_reading_failures_total{{node="{BOARDS[0]}"}}'
            before = float(scraped.query(failures)[0]["value"][1])
            wait_for("more failures", lambda: float(scraped.query(failures)[0]["value"][1]), before.__lt__, 30)
        finally:
            board.clear(FaultKind.FAIL_READ)
        wait_for("readings that are back", lambda: nodes(power), set(BOARDS).__eq__, 30)
