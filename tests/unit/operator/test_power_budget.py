"""A PowerBudget from the operator's side: shares are written in a safe order, jobs wait for power and come back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from powertrain.api.v1alpha1 import moment
from powertrain_operator.observation import Key

from .conftest import Cluster, Object

LOWEST_W = 15.9  # of an orin-agx without a profile: its smallest preset with a margin


@pytest.fixture
def site(cluster: Cluster) -> Cluster:
    """Three boards that take 5 W idle."""
    for number in (1, 2, 3):
        cluster.board(f"orin-{number}", {"circuit": "shed"})
        idles(cluster, f"orin-{number}", 5.0)
    return cluster


def idles(cluster: Cluster, node: str, watts: float) -> None:
    figures = {"watts": watts, "idleWatts": watts, "at": moment(cluster.now)}
    cluster.change("PowerNode", node, status={"figures": figures})
    cluster.settle()


def budget(cluster: Cluster, name: str = "shed", annotations: Object | None = None, **spec: Any) -> None:
    full = {"nodeSelector": {"circuit": "shed"}, "watts": 90, **spec}
    metadata = {"name": name, "generation": 1, "annotations": annotations or {}}
    cluster.put({"apiVersion": "powertrain.io/v1alpha1", "kind": "PowerBudget", "metadata": metadata, "spec": full})
    cluster.settle()


def annotate(cluster: Cluster, **annotations: str) -> None:
    named = {f"powertrain.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    cluster.change("PowerBudget", "shed", metadata={"annotations": named})
    cluster.settle()


def share(cluster: Cluster, node: str, name: str = "shed") -> Object:
    return next(s for s in cluster.get("PowerNode", node)["spec"]["shares"] if s["budget"] == name)


def shares(cluster: Cluster) -> dict[str, float]:
    return {key.name: share(cluster, key.name)["watts"] for key in cluster.cache.keys("PowerNode")}


def confirms(cluster: Cluster, *nodes: str) -> None:
    """Agents keep what is written for them."""
    for node in nodes or [key.name for key in cluster.cache.keys("PowerNode")]:
        written = cluster.get("PowerNode", node)["spec"].get("shares") or []
        kept = [{"budget": s["budget"], "watts": s["watts"], "revision": s["revision"]} for s in written]
        lowest_w = min((s["watts"] for s in written), default=None)
        cluster.change("PowerNode", node, status={"shares": kept, "shareWatts": lowest_w})
    cluster.settle()


def status(cluster: Cluster, name: str = "shed") -> Object:
    return dict(cluster.get("PowerBudget", name).get("status") or {})


def verdict(cluster: Cluster, type_: str) -> tuple[str, str]:
    found = next(c for c in status(cluster)["conditions"] if c["type"] == type_)
    return found["status"], found["reason"]


def start(cluster: Cluster, name: str, node: str, **spec: Any) -> None:
    """A job comes and gets its board, its share and its envelope."""
    cluster.submit(name, placement={"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}, **spec)
    for _ in range(3):
        cluster.wait(31)
        confirms(cluster)


def test_idle_boards_count_with_what_they_draw_and_a_margin(site: Cluster) -> None:
    budget(site)
    assert shares(site) == {"orin-1": 6.0, "orin-2": 6.0, "orin-3": 6.0}
    told = status(site)
    assert (told["capWatts"], told["allocatedWatts"], told["idleWatts"], told["drawnWatts"]) == (90, 18, 18, 15)


def test_the_share_is_there_before_the_envelope(site: Cluster) -> None:
    budget(site)
    seen: list[tuple[bool, float]] = []
    site.watch_writes(lambda: seen.append((bool(site.session("orin-1")), share(site, "orin-1")["watts"])))
    confirms(site)
    site.submit("job", constraints={"powerWatts": 30})
    assert site.session("orin-1") != {}
    assert all(watts >= LOWEST_W for has_session, watts in seen if has_session)
    assert site.session("orin-1")["plan"]["aim"] == "front"


def test_a_decrease_is_confirmed_before_the_increase_that_needs_it(site: Cluster) -> None:
    budget(site, watts=46)
    confirms(site)
    site.submit("one", constraints={"powerWatts": 60})
    site.wait(31)
    confirms(site)
    first_w = share(site, "orin-1")["watts"]
    assert first_w == pytest.approx(34, abs=0.2)
    site.running("one-0-1", "orin-1")
    site.submit("two", constraints={"powerWatts": 60})
    site.wait(31)
    lowered_w = share(site, "orin-1")["watts"]
    assert LOWEST_W - 1 < lowered_w < 24
    assert share(site, "orin-1")["reservedWatts"] == pytest.approx(first_w)
    assert share(site, "orin-2")["watts"] == 6.0
    assert site.session("orin-2") == {}
    confirms(site)
    assert share(site, "orin-2")["watts"] == pytest.approx(40 - lowered_w, abs=0.3)
    assert site.session("orin-2") != {}


def test_a_confirmation_of_an_earlier_write_frees_nothing(site: Cluster) -> None:
    """The agent kept 20 W once; that says nothing about the 20 W that were written after 34 W."""
    test_a_decrease_is_confirmed_before_the_increase_that_needs_it(site)
    old = {"budget": "shed", "watts": 20.0, "revision": 2}
    site.change("PowerNode", "orin-1", status={"shares": [old]})
    site.settle()
    board = next(b for b in status(site)["boards"] if b["name"] == "orin-1")
    assert board["confirmed"] is False


def test_a_falling_cap_is_passed_on_at_once_in_proportion(site: Cluster) -> None:
    budget(site, watts=126)
    confirms(site)
    for name, node in (("one", "orin-1"), ("two", "orin-2")):
        site.submit(name, constraints={"powerWatts": 60})
        site.wait(31)
        confirms(site)
        site.running(f"{name}-0-1", node)
    before = shares(site)
    site.change("PowerBudget", "shed", spec={"watts": 70})
    site.settle()
    after = shares(site)
    assert sum(after.values()) <= 70
    assert before["orin-1"] > after["orin-1"] > LOWEST_W
    assert before["orin-2"] > after["orin-2"] > LOWEST_W


@pytest.mark.parametrize("fall_w", [0.1, 0.2, 0.3])
def test_a_cap_that_falls_by_tenths_of_a_watt_is_kept_too(site: Cluster, fall_w: float) -> None:
    """A change of less than 0.2 W is not worth a write, unless the shares together exceed the cap without it."""
    test_a_falling_cap_is_passed_on_at_once_in_proportion(site)
    confirms(site)
    site.wait(31)
    confirms(site)
    cap_w = sum(shares(site).values())
    for _ in range(5):
        cap_w -= fall_w
        site.change("PowerBudget", "shed", spec={"watts": cap_w})
        site.settle()
        assert sum(shares(site).values()) <= cap_w + 1e-6
        confirms(site)
        assert status(site)["allocatedWatts"] <= cap_w + 1e-6


def test_a_job_that_does_not_fit_waits_for_power_and_holds_no_node(site: Cluster) -> None:
    budget(site, watts=25, schedule=[{"from": "18:00", "to": "20:00", "watts": 60}])
    confirms(site)
    site.submit("job", constraints={"powerWatts": 30})
    told = site.status()
    assert told["phase"] == "WaitingForPower"
    assert "W of PowerBudget shed are missing; the schedule frees them at 2026-06-01T18:00:00Z" in told["message"]
    assert not any(node["holds"] for node in told.get("nodes") or [])
    assert site.condition("Powered") == ("False", "WaitingForPower")
    waiting = status(site)
    assert waiting["waiting"] == 1
    assert waiting["waitingJobs"][0]["missingWatts"] == pytest.approx(16.0 + 12 - 25, abs=0.1)
    assert waiting["waitingJobs"][0]["freeAt"] == "2026-06-01T18:00:00Z"


def test_min_watts_keeps_a_job_from_starting_with_less(site: Cluster) -> None:
    budget(site, watts=40)
    confirms(site)
    site.submit("job", constraints={"powerWatts": 30, "minWatts": 29})
    assert site.status()["phase"] == "WaitingForPower"
    site.edit("job", constraints={"minWatts": 20})
    confirms(site)
    assert site.session("orin-1") != {}


def test_a_cap_of_zero_suspends_in_an_orderly_way_and_the_job_resumes(site: Cluster) -> None:
    budget(site, battery=[{"below": 20, "watts": 0}], annotations=battery(site, 80))
    confirms(site)
    site.submit("job", constraints={"powerWatts": 30})
    confirms(site)
    site.running("job-0-1", "orin-1")
    annotate(site, battery_percent="15", battery_percent_at=moment(site.now))
    told = site.status()
    assert (told["phase"], told["stopping"]) == ("WaitingForPower", "WaitingForPower")
    assert "WaitingForPower" in site.reasons()
    site.restores("orin-1")
    idles(site, "orin-1", 5.0)
    confirms(site)
    assert not any(node["holds"] for node in site.status()["nodes"])
    annotate(site, battery_percent="60", battery_percent_at=moment(site.now))
    site.wait(31)
    confirms(site)
    assert site.session("orin-1") != {}
    assert site.status()["attempt"] == 2


def battery(cluster: Cluster, percent: float) -> Object:
    return {
        "powertrain.io/battery-percent": f"{percent:g}",
        "powertrain.io/battery-percent-at": moment(cluster.now),
    }


def test_a_stale_battery_holds_the_lowest_entry_and_says_so(site: Cluster) -> None:
    budget(site, battery=[{"below": 40, "watts": 60}, {"below": 20, "watts": 30}], annotations=battery(site, 80))
    assert status(site)["capWatts"] == 90
    site.wait(11 * 60)
    assert status(site)["capWatts"] == 30
    assert verdict(site, "SupplyKnown") == ("False", "SupplyUnknown")
    assert "SupplyUnknown" in site.reasons()


def test_available_watts_lower_the_cap(site: Cluster) -> None:
    budget(site)
    annotate(site, available_watts="40", available_watts_at=moment(site.now))
    assert status(site)["capWatts"] == 40


def test_a_silent_board_keeps_its_share_reserved(site: Cluster) -> None:
    budget(site, watts=60)
    confirms(site)
    site.submit("job", constraints={"powerWatts": 60})
    site.wait(31)
    confirms(site)
    site.running("job-0-1", "orin-1")
    reserved_w = share(site, "orin-1")["watts"]
    site.silence("orin-1")
    site.ready("orin-1", False)
    site.wait(1000)
    board = next(b for b in status(site)["boards"] if b["name"] == "orin-1")
    assert (board["state"], board["watts"]) == ("Governed", pytest.approx(reserved_w))
    site.change("PowerBudget", "shed", spec={"countLost": False})
    site.settle()
    board = next(b for b in status(site)["boards"] if b["name"] == "orin-1")
    assert (board["state"], board["watts"]) == ("Off", 0.0)


def test_an_administrators_word_takes_a_lost_board_out(site: Cluster) -> None:
    budget(site, watts=60)
    site.silence("orin-1")
    site.ready("orin-1", False)
    site.wait(60)
    site.change("Node", "orin-1", metadata={"annotations": {"powertrain.io/powered-off": "true"}})
    site.settle()
    assert next(b for b in status(site)["boards"] if b["name"] == "orin-1")["state"] == "Off"


def test_a_node_without_an_agent_counts_with_the_most_its_board_can_draw(site: Cluster) -> None:
    labels = {"circuit": "shed", "powertrain.io/device": "orin-nano"}
    site.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new", "labels": labels}, "status": {}})
    budget(site)
    board = next(b for b in status(site)["boards"] if b["name"] == "new")
    assert (board["state"], board["watts"]) == ("Unmanaged", pytest.approx(16.5))
    assert verdict(site, "AllManaged") == ("False", "NodesUnmanaged")
    site.change("PowerBudget", "shed", spec={"unmanagedWatts": 7})
    site.settle()
    assert next(b for b in status(site)["boards"] if b["name"] == "new")["watts"] == 7


def test_a_load_on_an_idle_board_lowers_the_others(site: Cluster) -> None:
    budget(site, watts=60)
    confirms(site)
    site.submit("job", constraints={"powerWatts": 60})
    site.wait(31)
    confirms(site)
    site.running("job-0-1", "orin-1")
    before_w = share(site, "orin-1")["watts"]
    idles(site, "orin-2", 20.0)
    assert share(site, "orin-1")["watts"] <= before_w - 14


def test_more_than_the_cap_in_all_lowers_everybody_and_is_counted(site: Cluster) -> None:
    budget(site, watts=60)
    confirms(site)
    site.submit("job", constraints={"powerWatts": 60})
    site.wait(31)
    confirms(site)
    site.running("job-0-1", "orin-1")
    site.wait(31)
    before_w = share(site, "orin-1")["watts"]
    figures = {"watts": before_w + 5, "at": moment(site.now)}
    site.change("PowerNode", "orin-1", status={"figures": figures})
    site.settle()
    assert status(site)["exceeded"] == 1
    assert verdict(site, "WithinCap") == ("False", "CapExceeded")
    assert share(site, "orin-1")["watts"] < before_w
    assert "CapExceeded" in site.reasons()


def test_two_budgets_over_one_board_are_both_kept(site: Cluster) -> None:
    budget(site)
    budget(site, "roof", watts=40)
    confirms(site)
    site.submit("job", constraints={"powerWatts": 60})
    site.wait(31)
    confirms(site)
    site.wait(31)
    assert share(site, "orin-1")["watts"] > share(site, "orin-1", "roof")["watts"] >= LOWEST_W
    assert share(site, "orin-1", "roof")["watts"] <= 40 - 12
    assert site.session("orin-1") != {}


def test_the_shares_of_a_budget_that_is_deleted_go_with_it(site: Cluster) -> None:
    budget(site)
    site.remove("PowerBudget", "shed")
    site.reconcile(Key("PowerBudget", "", "shed"))
    assert [site.get("PowerNode", f"orin-{n}")["spec"].get("shares") or [] for n in (1, 2, 3)] == [[], [], []]


def test_a_higher_priority_gets_what_it_needs_first(site: Cluster) -> None:
    site.put(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 100,
        }
    )
    budget(site, watts=12 + 17)
    confirms(site)
    site.submit("low", constraints={"powerWatts": 60})
    site.wait(31)
    confirms(site)
    site.running("low-0-1", "orin-1")
    template = {"spec": {"priorityClassName": "urgent", "containers": [{"name": "train", "image": "x"}]}}
    site.submit("high", constraints={"powerWatts": 60}, workload={"template": template})
    site.wait(31)
    assert site.status("low")["phase"] == "WaitingForPower"
    assert any(node["holds"] for node in site.status("high")["nodes"])


def test_a_later_job_does_not_take_the_watts_that_an_earlier_one_waits_for(site: Cluster) -> None:
    budget(site, watts=50)
    confirms(site)
    site.submit("one", constraints={"powerWatts": 30})
    site.wait(31)
    confirms(site)
    site.running("one-0-1", "orin-1")
    site.submit("large", constraints={"powerWatts": 60, "minWatts": 35})
    site.submit("small", constraints={"powerWatts": 30})
    assert site.status("large")["phase"] == "WaitingForPower"
    assert not any(node["holds"] for node in site.status("small").get("nodes") or [])


def test_shares_are_made_anew_at_most_every_thirty_seconds(site: Cluster) -> None:
    budget(site, watts=80)
    confirms(site)
    site.submit("one", constraints={"powerWatts": 60})
    first = status(site)["resharedAt"]
    site.submit("two", constraints={"powerWatts": 60})
    site.wait(10)
    assert status(site)["resharedAt"] == first
    site.wait(21)
    assert status(site)["resharedAt"] != first


def test_a_job_whose_watts_are_free_does_not_wait_until_shares_are_made_anew(site: Cluster) -> None:
    budget(site, watts=90)
    confirms(site)
    site.submit("one", constraints={"powerWatts": 30})
    confirms(site)
    first = status(site)["resharedAt"]
    first_w = share(site, "orin-1")["watts"]
    site.submit("two", constraints={"powerWatts": 30})
    site.wait(1)
    assert status(site)["resharedAt"] == first
    assert site.session("orin-2") != {}
    assert (share(site, "orin-1")["watts"], share(site, "orin-2")["watts"]) == (first_w, pytest.approx(30.0))


def test_another_operator_first_writes_every_share_anew(site: Cluster) -> None:
    budget(site)
    confirms(site)
    site.settings = replace(site.settings, identity="next")
    site.settle()
    assert {share(site, f"orin-{n}")["writer"] for n in (1, 2, 3)} == {"next"}


def test_no_share_is_raised_while_a_write_may_be_under_way(site: Cluster) -> None:
    budget(site, watts=60)
    confirms(site)
    key = Key("PowerNode", "", "orin-3")
    seen = site.cache.observation(key)
    assert seen is not None
    site.cache.note_sent(key, seen.version)
    site.submit("job", constraints={"powerWatts": 60})
    assert not site.cache.is_in_doubt(key)  # it was written anew first
    assert share(site, "orin-1")["watts"] >= LOWEST_W


def test_a_fall_of_the_schedule_is_told_ahead(site: Cluster) -> None:
    budget(site, watts=60, schedule=[{"from": "22:00", "to": "06:00", "watts": 32}])
    confirms(site)
    site.submit("job", constraints={"powerWatts": 60})
    site.wait(31)
    confirms(site)
    bounds = share(site, "orin-1")["ahead"]
    assert [bound["at"] for bound in bounds] == ["2026-06-01T22:00:00Z"]
    assert bounds[0]["watts"] == pytest.approx(20, abs=0.2)
    site.now += timedelta(hours=9, minutes=59, seconds=20)
    site.wait(1)
    confirms(site)
    assert status(site)["capWatts"] == 32
    assert share(site, "orin-1")["watts"] <= 20


def test_boards_that_train_together_are_one_unit(site: Cluster) -> None:
    budget(site, watts=50)
    confirms(site)
    site.submit("job", constraints={"powerWatts": 60}, placement={"replicas": 2, "coupling": "Synchronous"})
    site.wait(31)
    confirms(site)
    told = shares(site)
    assert told["orin-1"] == pytest.approx(told["orin-2"], abs=0.2)
    assert told["orin-1"] >= LOWEST_W


def test_all_or_nothing_includes_the_watts(site: Cluster) -> None:
    budget(site, watts=30)
    confirms(site)
    site.submit("job", constraints={"powerWatts": 60}, placement={"replicas": 2})
    assert site.status()["phase"] == "WaitingForPower"
    assert not any(node["holds"] for node in site.status().get("nodes") or [])
