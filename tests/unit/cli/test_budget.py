"""`powertrain budget` and the shares in `explain`, against a recorded cluster with a PowerBudget over its boards."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from powertrain_cli.budget.screens import makespan_sentence, share_bar

from .test_jobs import OURS, RecordedApi, cluster

__all__ = ["cluster"]
Command = Callable[..., Any]
BUDGETS = f"{OURS}/powerbudgets"


def budget() -> dict[str, Any]:
    ends = (datetime.now(UTC) + timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    boards = [
        {
            "name": "nano-1",
            "state": "Governed",
            "watts": 12.5,
            "shareWatts": 12.5,
            "targetWatts": 10.0,
            "confirmed": False,
            "drawnWatts": 11.2,
            "lowestWatts": 5.0,
            "job": "default/resnet18",
            "speed": 0.8,
            "endsAt": ends,
            "reason": "its work ends with the others'",
        },
        {"name": "orin-1", "state": "Idle", "watts": 9.0, "drawnWatts": 8.5, "reason": "no job"},
    ]
    return {
        "apiVersion": "powertrain.io/v1alpha1",
        "kind": "PowerBudget",
        "metadata": {"name": "shed-3"},
        "spec": {"watts": 90, "reserveWatts": 8},
        "status": {
            "capWatts": 40,
            "capSource": "schedule entry from 22:00",
            "allocatedWatts": 29.5,
            "drawnWatts": 19.7,
            "idleWatts": 9,
            "jobs": 1,
            "waiting": 1,
            "boards": boards,
            "waitingJobs": [{"namespace": "default", "name": "third", "missingWatts": 4.5}],
            "forecast": {"seconds": 7200, "equalSeconds": 14400, "proportionalSeconds": 9000},
            "conditions": [
                {
                    "type": "SharesConfirmed",
                    "status": "False",
                    "reason": "Unconfirmed",
                    "message": "nano-1",
                    "lastTransitionTime": ends,
                },
                {"type": "WithinCap", "status": "True", "reason": "Kept", "message": "", "lastTransitionTime": ends},
            ],
        },
    }


@pytest.fixture
def site(cluster: RecordedApi) -> RecordedApi:
    cluster.objects[BUDGETS] = [budget()]
    return cluster


def test_show_tells_share_draw_speed_and_end_of_each_board(site: RecordedApi, powertrain: Command) -> None:
    page = powertrain("budget", "show", "shed-3").out
    assert "19.7 W drawn, 29.5 W reserved of 40 W" in page
    assert "schedule entry from 22:00" in page
    line = next(line for line in page.splitlines() if line.startswith("nano-1"))
    for words in ("default/resnet18", "11.2", "12.5 unconfirmed", "80%", "3h"):
        assert words in line
    assert "the last job ends in 2h; equal shares: 4h (2.00 ×), proportional shares: 2h (1.25 ×)" in page
    assert "default/third" in page
    assert "SharesConfirmed: Unconfirmed nano-1" in page
    assert "WithinCap" not in page


def test_show_as_json_holds_the_same(site: RecordedApi, powertrain: Command) -> None:
    document = json.loads(powertrain("budget", "show", "shed-3", "--json").out)
    assert (document["cap_w"], document["drawn_w"], document["reserve_w"]) == (40, 19.7, 8)
    nano, orin = document["boards"]
    assert (nano["share_w"], nano["target_w"], nano["confirmed"]) == (12.5, 10.0, False)
    assert 10700 < nano["ends_s"] <= 10800
    assert (orin["state"], orin["share_w"], orin["reserved_w"]) == ("Idle", None, 9.0)
    assert document["waiting"] == [{"job": "default/third", "missing_w": 4.5, "free_at": None}]
    assert document["makespan"]["equal_seconds"] == 14400


def test_a_budget_that_is_not_there_is_named_with_those_that_are(site: RecordedApi, powertrain: Command) -> None:
    result = powertrain("budget", "show", "shed-4")
    assert result.code == 2
    assert "no PowerBudget 'shed-4'; there are: shed-3" in result.err


def test_explain_says_which_share_a_job_has_and_why(site: RecordedApi, powertrain: Command) -> None:
    words = "share 12.5 W of PowerBudget shed-3, on its way to 10 W, not confirmed by its agent yet, "
    words += "80% of the speed without a cap: its work ends with the others'"
    assert words in powertrain("explain", "resnet18").out
    (board,) = json.loads(powertrain("explain", "resnet18", "--json").out)["boards"]
    assert board["shares"][0]["share_w"] == 12.5


@pytest.mark.parametrize("forbidden", [True, False])
def test_explain_works_without_budgets(cluster: RecordedApi, powertrain: Command, forbidden: bool) -> None:
    if forbidden:
        cluster.objects[BUDGETS] = [budget()]
        cluster.forbidden.add(BUDGETS)
    (board,) = json.loads(powertrain("explain", "resnet18", "--json").out)["boards"]
    assert board["shares"] == []


def test_a_bar_shows_draw_share_and_rest() -> None:
    assert share_bar(10, 20, 40, width=8).plain == "██▒▒····"
    assert share_bar(30, 20, 40, width=8).plain == "██████··"
    assert "red" in str(share_bar(30, 20, 40).spans)


def test_a_makespan_that_is_not_known_is_not_told() -> None:
    unknown = {"seconds": None, "equal_seconds": None, "proportional_seconds": None}
    assert makespan_sentence(unknown) == ""
    assert makespan_sentence(unknown | {"seconds": 60.0}) == "the last job ends in 60s"


# The plan


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    spec = {"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerBudget", "metadata": {"name": "site"}}
    path.write_text(yaml.safe_dump({**spec, "spec": {"watts": 60, "reserveWatts": 5}}))
    return path


def idle(cluster: RecordedApi, node: str, watts: float) -> None:
    """Let a board be without a session, and its agent have said what it draws then."""
    raw = next(each for each in cluster.objects[f"{OURS}/powernodes"] if each["metadata"]["name"] == node)
    raw["spec"].pop("session", None)
    raw["status"].pop("session", None)
    raw["status"].setdefault("figures", {})["idleWatts"] = watts


def test_plan_shares_among_running_and_waiting_jobs_and_writes_nothing(
    cluster: RecordedApi, powertrain: Command, manifest: Path
) -> None:
    idle(cluster, "orin-1", 9.0)
    document = json.loads(powertrain("budget", "plan", "-f", str(manifest), "--json").out)
    boards = {board["node"]: board for board in document["boards"]}
    assert boards["nano-1"]["job"] == "default/resnet18"
    assert boards["nano-1"]["has_front"]
    assert document["allocated_w"] <= document["cap_w"] == 60
    assert boards["nano-1"]["lowest_w"] <= boards["nano-1"]["share_w"] <= boards["nano-1"]["most_w"]
    assert cluster.writes == []
    page = powertrain("budget", "plan", "-f", str(manifest)).out
    assert "site  MinMakespan, as it would be now" in page
    assert "of 60 W (watts)" in page


def test_plan_places_the_jobs_of_the_file(
    cluster: RecordedApi, powertrain: Command, manifest: Path, tmp_path: Path
) -> None:
    idle(cluster, "orin-1", 9.0)
    jobs = cluster.objects[f"{OURS}/trainingjobs"]
    finished_job = next(each for each in jobs if each["metadata"]["name"] == "mobilenet-v3")
    job = {key: finished_job[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "planned-job"}}
    cluster.objects[f"{OURS}/trainingjobs"] = [each for each in jobs if each["metadata"]["name"] == "resnet18"]
    both = tmp_path / "both.yaml"
    both.write_text(manifest.read_text() + "---\n" + yaml.safe_dump(job))
    document = json.loads(powertrain("budget", "plan", "-f", str(both), "--json").out)
    orin = next(board for board in document["boards"] if board["node"] == "orin-1")
    assert (orin["job"], orin["state"]) == ("default/planned-job", "Planned")
    assert orin["share_w"] > 9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: TrainingJob\n", "holds 0 PowerBudgets; write one"),
        ("kind: PowerBudget\nmetadata: {name: a}\nspec: {watts: -3}\n", "spec.watts"),
        ("kind: [\n", "while parsing"),
    ],
)
def test_a_file_that_can_not_be_planned_is_named(
    cluster: RecordedApi, powertrain: Command, tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(text)
    result = powertrain("budget", "plan", "-f", str(path))
    assert result.code == 2
    assert words in result.err
