"""Two releases in one cluster: the second operator refuses to start, and a dead first one is waited out."""

from __future__ import annotations

import io
import threading

import pytest

from powertrain_kube import Log
from powertrain_operator.resources import LEASE
from powertrain_operator.runtime.lease import OperatorLease
from powertrain_operator.runtime.one_release import DURATION_S, SYSTEM, AnotherReleaseError, claim, lease_settings
from powertrain_operator.settings import Settings

from .fakes import Clock, FakeApi

PATH = LEASE.path(SYSTEM, Settings().cluster_lease_name)


class PassingTime(threading.Event):
    """Waiting on it lets time pass on a clock that is moved by hand, and somebody else may act meanwhile."""

    def __init__(self, clock: Clock, other: OperatorLease | None = None) -> None:
        super().__init__()
        self._clock, self._other = clock, other

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.s += timeout or 0.0
        if self._other is not None:
            self._other.attempt()
        return self.is_set()


def lease(api: FakeApi, clock: Clock, namespace: str) -> OperatorLease:
    settings = lease_settings(Settings(namespace=namespace, identity="pod"))
    return OperatorLease(api, settings, Log(io.StringIO()), clock, clock.now)  # type: ignore[arg-type]


def test_the_second_release_is_refused_by_name() -> None:
    api, clock = FakeApi(), Clock()
    first, second = lease(api, clock, "first"), lease(api, clock, "second")
    assert claim(first, PassingTime(clock), 2.0)
    with pytest.raises(AnotherReleaseError, match="the operator of namespace first serves this cluster already"):
        claim(second, PassingTime(clock, first), 2.0)
    assert api.objects[PATH]["spec"]["holderIdentity"] == "first"


def test_operators_of_one_release_follow_each_other_at_once() -> None:
    api, clock = FakeApi(), Clock()
    before, after = lease(api, clock, "first"), lease(api, clock, "first")
    assert claim(before, PassingTime(clock), 2.0)
    began_s = clock.s
    assert claim(after, PassingTime(clock, before), 2.0)
    assert clock.s == began_s


def test_a_release_that_is_gone_is_waited_out() -> None:
    api, clock = FakeApi(), Clock()
    assert claim(lease(api, clock, "first"), PassingTime(clock), 2.0)
    began_s = clock.s
    assert claim(lease(api, clock, "second"), PassingTime(clock), 2.0)
    assert DURATION_S <= clock.s - began_s <= DURATION_S + 2.0
    assert api.objects[PATH]["spec"]["holderIdentity"] == "second"


def test_a_release_that_ended_in_an_orderly_way_leaves_the_cluster_at_once() -> None:
    api, clock = FakeApi(), Clock()
    first = lease(api, clock, "first")
    assert claim(first, PassingTime(clock), 2.0)
    first.give_back()
    assert claim(lease(api, clock, "second"), PassingTime(clock), 2.0)
    assert clock.s == Clock().s
