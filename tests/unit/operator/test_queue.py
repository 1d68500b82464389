"""The work queue: each key once, in order, later after failures."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from powertrain_operator.observation import Key
from powertrain_operator.plan import Rank
from powertrain_operator.runtime.queue import WorkQueue

A, B, C = (Key("TrainingJob", "team", name) for name in "abc")


def queue() -> WorkQueue:
    return WorkQueue(0.5, 60.0, random.Random(1))


def test_a_key_that_is_asked_for_twice_comes_once() -> None:
    work = queue()
    work.add(A, 0.0)
    work.add(A, 0.0)
    assert (work.pop(0.0), work.pop(0.0), len(work)) == (A, None, 0)


def test_due_keys_come_in_the_order_in_which_they_became_due() -> None:
    work = queue()
    work.add(A, 0.0, 3.0)
    work.add(B, 0.0, 1.0)
    work.add(C, 0.0, 1.0)
    assert work.due_s() == 1.0
    assert [work.pop(5.0) for _ in range(4)] == [B, C, A, None]


def test_the_earlier_of_two_times_counts() -> None:
    work = queue()
    work.add(A, 0.0, 10.0)
    work.add(A, 0.0, 2.0)
    work.add(A, 0.0, 20.0)
    assert (work.pop(1.9), work.pop(2.0), work.due_s()) == (None, A, None)


def test_a_failing_key_waits_longer_each_time_up_to_a_bound_and_starts_anew_after_success() -> None:
    work = queue()
    waits_s = [work.retry(A, 0.0) for _ in range(12)]
    bounds_s = [min(60.0, 0.5 * 2**failures) for failures in range(12)]
    assert all(0.5 * bound_s <= wait_s <= bound_s for wait_s, bound_s in zip(waits_s, bounds_s, strict=True))
    work.succeeded(A)
    assert work.retry(A, 0.0) <= 0.5


def test_the_failures_of_one_key_do_not_slow_another() -> None:
    work = queue()
    for _ in range(8):
        work.retry(A, 0.0)
    assert work.retry(B, 0.0) <= 0.5


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.floats(0, 10), st.booleans()), max_size=40))
def test_whatever_is_asked_for_comes_exactly_once_and_never_early(requests: list[tuple[Key, float, bool]]) -> None:
    work, due_s_of = queue(), {}
    for now_s, (key, after_s, take) in enumerate(requests):
        work.add(key, float(now_s), after_s)
        due_s_of[key] = min(due_s_of.get(key, float("inf")), now_s + after_s)
        if take and (next_key := work.pop(float(now_s))) is not None:
            assert due_s_of.pop(next_key) <= now_s
    left = [work.pop(1000.0) for _ in range(len(work))]
    assert sorted(left) == sorted(due_s_of)
    assert [due_s_of[key] for key in left] == sorted(due_s_of.values())


def test_keys_of_a_better_rank_come_before_the_others_that_are_due() -> None:
    work = queue()
    work.add(A, 0.0)
    work.add(B, 1.0, rank=Rank.START)
    work.add(C, 0.0, 9.0, rank=Rank.START)
    assert work.due_s() == 0.0
    assert [work.pop(2.0) for _ in range(3)] == [B, A, None], "a good rank waits until it is due"
    assert (work.due_s(), work.pop(9.0)) == (9.0, C)


def test_a_key_that_gets_a_better_rank_comes_once_and_keeps_it() -> None:
    work = queue()
    work.add(A, 0.0)
    work.add(B, 0.0)
    work.add(B, 0.0, rank=Rank.START)
    work.add(B, 0.0)
    assert [work.pop(0.0) for _ in range(3)] == [B, A, None]


def test_a_flood_of_the_best_rank_does_not_hold_up_the_others() -> None:
    work = queue()
    flood = [Key("TrainingJob", "team", f"flood-{number}") for number in range(500)]
    for key in flood:
        work.add(key, 0.0, rank=Rank.START)
    work.add(A, 0.0, rank=Rank.END)
    work.add(B, 0.0, rank=Rank.REST)
    first = [work.pop(0.0) for _ in range(16)]
    assert first.index(A) < first.index(B) < 16
    assert sum(key in flood for key in first) == 14


def test_an_old_key_comes_before_new_ones_of_a_better_rank() -> None:
    work = queue()
    work.add(A, 0.0, rank=Rank.REST)
    work.add(B, 3.0, rank=Rank.START)
    work.add(C, 5.0, rank=Rank.START)
    assert [work.pop(5.0) for _ in range(3)] == [B, A, C]
