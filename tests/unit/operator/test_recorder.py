"""Events: the same again counts up, others are bounded, and one that can't be written holds nobody up."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from powertrain_kube import ForbiddenError
from powertrain_operator.plan import Announce
from powertrain_operator.runtime.background import BackgroundQueue
from powertrain_operator.runtime.lease import LeaseLostError
from powertrain_operator.runtime.recorder import Recorder

from .fakes import WorkerHarness

EVENTS = "/apis/events.k8s.io/v1/namespaces/team/events"


def event(message: str = "chosen 15 W", uid: str = "u") -> Announce:
    metadata = {"name": "lstm", "namespace": "team", "uid": uid, "resourceVersion": "7"}
    about = {"apiVersion": "powertrain.io/v1alpha1", "kind": "TrainingJob", "metadata": metadata}
    return Announce(about, "Normal", "ModeChosen", message)


def recorder(rig: WorkerHarness) -> Recorder:
    worker = rig.worker
    return Recorder(
        rig.api,  # type: ignore[arg-type]
        worker.gateway,
        rig.settings,
        worker.metrics,
        worker._log,
        rig.clock,
        rig.clock.now,
    )


def stored(rig: WorkerHarness) -> list[dict[str, Any]]:
    return [body for path, body in rig.api.objects.items() if path.startswith(EVENTS)]


def test_an_event_says_what_about_whom_and_from_whom() -> None:
    rig = WorkerHarness()
    recorder(rig).announce(event())
    (stored_event,) = stored(rig)
    assert (stored_event["reason"], stored_event["note"], stored_event["type"]) == (
        "ModeChosen",
        "chosen 15 W",
        "Normal",
    )
    assert stored_event["regarding"]["uid"] == "u"
    assert stored_event["reportingController"] == "powertrain.io/operator"
    assert stored_event["metadata"]["name"].startswith("lstm.")
    assert stored_event["eventTime"].endswith("Z")


def test_the_same_event_again_counts_up_with_few_writes() -> None:
    rig = WorkerHarness()
    one = recorder(rig)
    for _ in range(125):
        one.announce(event())
        rig.clock.s += 1.0
    (stored_event,) = stored(rig)
    assert stored_event["series"]["count"] >= 100
    assert len(rig.api.calls) <= 4


def test_after_ten_quiet_minutes_it_is_a_new_event() -> None:
    rig = WorkerHarness()
    one = recorder(rig)
    one.announce(event())
    rig.clock.s += 601.0
    one.announce(event())
    assert len(stored(rig)) == 2


def test_an_operator_that_was_killed_in_between_counts_up_too() -> None:
    rig = WorkerHarness()
    recorder(rig).announce(event())
    recorder(rig).announce(event())
    recorder(rig).announce(event())
    (stored_event,) = stored(rig)
    assert stored_event["series"]["count"] == 3


def test_an_event_that_expired_meanwhile_is_made_anew() -> None:
    rig = WorkerHarness()
    one = recorder(rig)
    one.announce(event())
    rig.api.objects.clear()
    one.announce(event())
    one.announce(event())
    assert len(stored(rig)) == 1


def test_another_message_or_another_object_is_another_event() -> None:
    rig = WorkerHarness()
    one = recorder(rig)
    one.announce(event())
    one.announce(event("chosen 20 W"))
    one.announce(event(uid="v"))
    assert len(stored(rig)) == 3


def test_an_object_that_talks_too_much_is_cut_short_and_memory_is_bounded() -> None:
    rig = WorkerHarness(events_per_object=5, events_remembered=8)
    one = recorder(rig)
    for number in range(20):
        one.announce(event(f"{number} W"))
    assert len(stored(rig)) == 5
    assert rig.metric("powertrain_events_dropped_total") == 15
    for number in range(20):
        one.announce(event(uid=f"u-{number}"))
    assert len(one._series) <= 8


def test_a_long_message_is_cut_to_what_the_server_takes() -> None:
    rig = WorkerHarness()
    recorder(rig).announce(event("x" * 5000))
    assert len(stored(rig)[0]["note"]) == 1024


def test_an_event_that_is_refused_is_logged_and_dropped() -> None:
    rig = WorkerHarness()
    rig.api.failing = ForbiddenError("the namespace is being deleted")
    recorder(rig).announce(event())
    assert "being deleted" in rig.lines.getvalue()
    assert rig.metric("powertrain_events_dropped_total") == 1


def test_without_the_lease_there_are_no_events() -> None:
    rig = WorkerHarness()
    rig.may_act.append(LeaseLostError("lost"))
    with pytest.raises(LeaseLostError):
        recorder(rig).announce(event())
    assert stored(rig) == []


def test_events_are_written_in_order_and_ends_only_when_it_is_empty() -> None:
    written: list[str] = []
    waiting, stop = BackgroundQueue[Announce](lambda each: written.append(each.message)), threading.Event()
    for number in range(5):
        waiting.put(event(str(number)))
    stop.set()
    waiting.run(stop)
    assert written == ["0", "1", "2", "3", "4"]
