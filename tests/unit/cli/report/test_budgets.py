"""The report of a PowerBudget: boards on one clock, the cap, and what the sharing gains."""

from __future__ import annotations

from typing import Any

from powertrain.api.v1alpha1 import PowerBudget
from powertrain_cli.report import budgets, summary
from powertrain_cli.report.document import Report, Timeline
from powertrain_cli.report.page import MAX_BYTES, page


def budget(boards: int = 2, **status: Any) -> PowerBudget:
    board_rows = [
        {"name": f"orin-{number}", "state": "Governed", "watts": 30, "drawnWatts": 28.5, "job": f"team/job-{number}"}
        for number in range(boards)
    ]
    full_status = {"capWatts": 60.0, "drawnWatts": 57.0, "boards": board_rows, **status}
    return PowerBudget.model_validate({"metadata": {"name": "site"}, "spec": {"watts": 60}, "status": full_status})


def line(began_at: str, power_w: float, seconds: int = 60) -> Timeline:
    at_s = tuple(float(second) for second in range(seconds))
    return Timeline(
        source="the board",
        began_at=began_at,
        at_s=at_s,
        power_mean_w=(power_w,) * seconds,
        limit_w=(30.0,) * seconds,
    )


def test_boards_whose_jobs_began_at_other_times_are_on_one_clock() -> None:
    lines = {"orin-0": line("2026-03-01T10:00:00Z", 20.0), "orin-1": line("2026-03-01T10:00:30Z", 25.0)}
    shared = budgets.fleet(budget(), lines)
    assert shared.began_at == "2026-03-01T10:00:00+00:00"
    assert (shared.at_s[0], round(shared.at_s[-1])) == (0.0, 89)
    first, second = shared.boards
    assert (first.power_w[0], second.power_w[0]) == (20.0, None)
    assert (first.power_w[-1], second.power_w[-1]) == (None, 25.0)
    middle = len(shared.at_s) // 2
    assert (first.power_w[middle], second.power_w[middle], shared.cap_w[middle]) == (20.0, 25.0, 60.0)
    assert shared.source == "the board"


def test_the_cap_over_time_is_shown_where_it_is_known() -> None:
    caps = Timeline(
        source="Prometheus", began_at="2026-03-01T10:00:00Z", at_s=(0.0, 30.0, 60.0), limit_w=(60.0, 40.0, 40.0)
    )
    shared = budgets.fleet(budget(), {"orin-0": line("2026-03-01T10:00:00Z", 20.0)}, caps)
    assert (shared.cap_w[0], shared.cap_w[-1]) == (60.0, 40.0)


def test_other_sharings_are_compared_and_marked_as_predicted() -> None:
    forecast = {"seconds": 3600, "equalSeconds": 4500, "proportionalSeconds": 3900}
    power_budget = budget(forecast=forecast, exceeded=2)
    assert [(each.seconds, each.basis.value) for each in budgets.makespans(power_budget.status.forecast)] == [
        (3600, "predicted"),
        (4500, "predicted"),
        (3900, "predicted"),
    ]
    words = summary.of_budget(power_budget)
    assert words.startswith("2 boards take 57 of 60 W; the cap was exceeded 2 times; all jobs end in 1:00:00; ")
    assert words.endswith("; equal shares would take 1.25× as long (predicted).")
    assert "never exceeded" in summary.of_budget(budget())


def test_a_budget_without_any_session_says_so() -> None:
    text = page(report(budget(), {}))
    assert "No time line: no board has told of a session yet." in text
    assert "team/job-1" in text


def test_the_page_of_the_largest_budget_is_small_enough() -> None:
    lines = {f"orin-{number}": line("2026-03-01T10:00:00Z", 20.123456 + number, 400) for number in range(256)}
    text = page(report(budget(256), lines))
    assert len(text.encode()) <= MAX_BYTES
    assert "orin-255" in text


def report(power_budget: PowerBudget, lines: dict[str, Timeline]) -> Report:
    return Report(
        name="PowerBudget site",
        summary=summary.of_budget(power_budget),
        made_at="now",
        versions={"powertrain": "0"},
        boards=(),
        fleet=budgets.fleet(power_budget, lines),
    )
