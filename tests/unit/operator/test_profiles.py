"""PowerProfiles: written from what a session learnt, found again by their key, and never trusted blindly."""

from __future__ import annotations

from typing import Any

from .conftest import Cluster


def finished(cluster: Cluster, name: str = "job") -> None:
    """One whole run of a job."""
    cluster.submit(name, workload={"name": "mobilenet"})
    cluster.running(f"{name}-0-1")
    cluster.ends(f"{name}-0-1")
    cluster.restores()


def test_what_a_session_learnt_is_kept_under_its_key(one_board: Cluster) -> None:
    finished(one_board)
    (key,) = one_board.cache.keys("PowerProfile")
    profile = one_board.get("PowerProfile", key.name, "team")
    spec = profile["spec"]
    assert (spec["workload"], spec["batchSize"], spec["device"]["l4t"]) == ("mobilenet", 16, "36.4.3")
    assert spec["samples"]["powerWatts"] == "14.0 28.0"
    assert profile["status"]["measured"] == 2
    assert key.name.startswith("mobilenet-b16-orin-agx-")


def test_the_same_job_again_starts_from_its_profile(one_board: Cluster) -> None:
    finished(one_board)
    one_board.submit("again", workload={"name": "mobilenet"})
    assert one_board.session()["prior"]["match"] == "Exact"
    claims = [event.message for event in one_board.events if event.reason == "NodesClaimed"]
    assert ["reused after a check" in words for words in claims] == [False, True]


def test_a_use_is_counted_with_what_the_session_has_measured_anew(one_board: Cluster) -> None:
    c = one_board
    finished(c)
    began = c.now
    c.submit("again", workload={"name": "mobilenet"})
    c.running("again-0-1")
    c.wait(10.0)
    assert stored(c)["status"].get("uses", 0) == 0, "what is known already is renewed once a minute or in the end"
    c.ends("again-0-1")
    assert (stored(c)["status"]["uses"], stored(c)["status"]["lastUsedAt"]) == (1, began.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert [source.rpartition("/")[2] for source in stored(c)["status"]["sources"]] == ["2", "2"]
    c.restores()
    assert stored(c)["status"]["uses"] == 1


def test_what_a_long_session_measures_anew_is_kept_after_a_minute(one_board: Cluster) -> None:
    c = one_board
    finished(c)
    c.submit("again", workload={"name": "mobilenet"})
    c.running("again-0-1")
    c.wait(59.0)
    assert len(stored(c)["status"]["sources"]) == 1
    c.wait(2.0)
    assert len(stored(c)["status"]["sources"]) == 2


def stored(cluster: Cluster) -> dict[str, Any]:
    """The one profile."""
    (key,) = cluster.cache.keys("PowerProfile")
    return cluster.get("PowerProfile", key.name, "team")


def test_another_template_of_the_same_name_is_only_a_start(one_board: Cluster) -> None:
    finished(one_board)
    other = {"spec": {"containers": [{"name": "train", "image": "example.org/train:2"}]}}
    one_board.submit("again", workload={"name": "mobilenet", "template": other})
    assert one_board.session()["prior"]["match"] == "Warm"
    assert "the pods' template is another one" in one_board.event_message("ProfileWarm")


def test_a_profile_of_another_release_of_l4t_is_only_a_start(one_board: Cluster) -> None:
    finished(one_board)
    one_board.change("PowerNode", "orin-1", status={"device": {"l4t": "36.5"}})
    one_board.submit("again", workload={"name": "mobilenet"})
    assert one_board.session()["prior"]["match"] == "Warm"
    assert "L4T release 36.4.3 → 36.5" in one_board.event_message("ProfileWarm")


def test_a_profile_of_other_frequency_tables_is_not_used(one_board: Cluster) -> None:
    finished(one_board)
    one_board.change("PowerNode", "orin-1", status={"device": {"tables": "other"}})
    one_board.submit("again", workload={"name": "mobilenet"})
    assert "prior" not in one_board.session()


def test_a_damaged_profile_is_said_and_measured_anew(one_board: Cluster) -> None:
    finished(one_board)
    (key,) = one_board.cache.keys("PowerProfile")
    one_board.change("PowerProfile", key.name, "team", spec={"samples": {"cores": [0]}})
    one_board.submit("again", workload={"name": "mobilenet"})
    assert "prior" not in one_board.session()
    assert "is damaged and not used" in one_board.event_message("ProfileDamaged")


def test_a_job_that_wants_no_reuse_starts_from_nothing(one_board: Cluster) -> None:
    finished(one_board)
    one_board.submit("again", workload={"name": "mobilenet"}, profiling={"reuse": False})
    assert "prior" not in one_board.session()


def test_a_session_never_gets_its_own_result_back_as_a_prior(one_board: Cluster) -> None:
    one_board.submit(workload={"name": "mobilenet"})
    one_board.running()
    assert one_board.cache.keys("PowerProfile")
    one_board.edit(constraints={"powerWatts": 25})
    assert "prior" not in one_board.session()


def test_the_node_with_a_reusable_profile_comes_first(one_board: Cluster) -> None:
    finished(one_board)
    one_board.board("orin-0", l4t="35.1", tables="older")
    one_board.submit("again", workload={"name": "mobilenet"})
    assert one_board.status("again")["where"] == "orin-1"


def test_a_session_keeps_the_prior_it_began_with_through_pods_edits_and_its_release(one_board: Cluster) -> None:
    c = one_board
    c.submit("first", workload={"name": "same"})
    c.running("first-0-1")
    c.ends("first-0-1")
    c.restores()
    c.submit("second", workload={"name": "same"})
    began = c.session()["prior"]
    assert began["match"] == "Exact"
    c.running("second-0-1")
    c.edit("second", constraints={"powerWatts": 25})
    assert (c.session()["limits"]["powerWatts"], c.session()["prior"]) == (25, began)
    c.ends("second-0-1")
    spec = c.get("PowerNode", "orin-1")["spec"]
    assert (spec["release"], spec["session"]["prior"]) == (spec["session"]["uid"], began)
