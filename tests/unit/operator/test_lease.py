"""The operator's Lease on clocks moved by hand: one holder at a time, and nobody acts on a Lease that may be lost."""

from __future__ import annotations

import io
from datetime import datetime

import pytest

from powertrain_kube import AwayError, Log
from powertrain_operator.resources import LEASE
from powertrain_operator.runtime.lease import LeaseLostError, OperatorLease
from powertrain_operator.settings import Settings

from .fakes import Clock, FakeApi

PATH = LEASE.path("system", Settings().lease_name)


def lease(api: FakeApi, clock: Clock, who: str) -> OperatorLease:
    settings = Settings(namespace="system", identity=who)
    return OperatorLease(api, settings, Log(io.StringIO()), clock, clock.now)  # type: ignore[arg-type]


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_free_lease_is_taken_and_a_held_one_is_waited_for(api: FakeApi, clock: Clock) -> None:
    first, second = lease(api, clock, "first"), lease(api, clock, "second")
    assert first.attempt()
    assert not second.attempt()
    assert (first.is_held, second.is_held) == (True, False)
    spec = api.objects[PATH]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("first", 15, 0)
    with pytest.raises(LeaseLostError):
        second.check()


def test_a_lease_that_is_renewed_stays_with_its_holder(api: FakeApi, clock: Clock) -> None:
    first, second = lease(api, clock, "first"), lease(api, clock, "second")
    for _ in range(60):
        assert first.attempt()
        assert not second.attempt()
        clock.s += 2.0
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 0


def test_a_lease_is_taken_over_when_it_did_not_change_for_its_duration(api: FakeApi, clock: Clock) -> None:
    first, second = lease(api, clock, "first"), lease(api, clock, "second")
    first.attempt()
    second.attempt()
    clock.s += 14.9
    assert not second.attempt()
    assert not first.is_held
    clock.s += 0.2
    assert second.attempt()
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 1
    with pytest.raises(LeaseLostError, match="second has taken the Lease"):
        first.attempt()


def test_the_holder_may_not_act_before_others_may_take_over(api: FakeApi, clock: Clock) -> None:
    first, second = lease(api, clock, "first"), lease(api, clock, "second")
    first.attempt()
    second.attempt()
    api.failing = AwayError("nobody answers")
    while first.is_held:
        assert not first.attempt()
        clock.s += 0.1
    api.failing = None
    assert not second.attempt()  # there is a time in which nobody acts, and none in which two do


def test_a_wall_clock_that_jumps_makes_no_second_holder(api: FakeApi, clock: Clock) -> None:
    first = lease(api, clock, "first")
    first.attempt()
    settings = Settings(namespace="system", identity="second")
    late = datetime(2099, 1, 1).astimezone()
    second = OperatorLease(api, settings, Log(io.StringIO()), clock, lambda: late)  # type: ignore[arg-type]
    assert not second.attempt()
    assert first.is_held


def test_of_two_that_take_over_at_once_one_wins(api: FakeApi, clock: Clock) -> None:
    lease(api, clock, "dead").attempt()
    first, second = lease(api, clock, "first"), lease(api, clock, "second")
    first.attempt()
    second.attempt()
    clock.s += 20.0
    stale = api.get(PATH)
    assert first.attempt()
    api.get = lambda path, query=None: stale  # type: ignore[method-assign]
    assert not second.attempt()
    assert not second.is_held


def test_a_lease_that_is_given_back_is_free_at_once(api: FakeApi, clock: Clock) -> None:
    first, second = lease(api, clock, "first"), lease(api, clock, "second")
    first.attempt()
    second.attempt()
    first.give_back()
    assert not first.is_held
    assert second.attempt()


def test_only_the_holder_gives_back(api: FakeApi, clock: Clock) -> None:
    first, second = lease(api, clock, "first"), lease(api, clock, "second")
    first.attempt()
    second.attempt()
    clock.s += 16.0
    second.attempt()
    first.give_back()
    assert api.objects[PATH]["spec"]["holderIdentity"] == "second"
