"""Loaders wrapped by the SDK behave as they would unwrapped, and count or read ahead besides."""

import gc
import threading

import pytest

from powertrain_sdk import loaders


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    counts: list[int] = []
    monkeypatch.setattr(loaders, "step", lambda: counts.append(1))
    return counts


def prefetching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "powertrain-prefetch"]


class Loader(list):
    dataset = "gld23k"


@pytest.mark.parametrize("wrap", [loaders.track, loaders.prefetch])
def test_a_wrapped_loader_gives_the_same_batches_each_epoch_and_looks_like_it(wrap) -> None:
    wrapped = wrap(Loader("abc"))
    assert [list(wrapped), list(wrapped), len(wrapped), wrapped.dataset] == [["a", "b", "c"]] * 2 + [3, "gld23k"]
    with pytest.raises(AttributeError):
        _ = wrapped.absent


@pytest.mark.parametrize("wrap", [loaders.track, loaders.prefetch])
def test_a_loader_without_length_has_none_wrapped(wrap) -> None:
    with pytest.raises(TypeError):
        len(wrap(iter([1, 2])))


def test_a_tracked_batch_counts_when_its_work_is_done(counted) -> None:
    counts = [len(counted) for _ in loaders.track([1, 2, 3])]
    assert (counts, len(counted)) == ([0, 1, 2], 3)


def test_a_batch_left_by_break_does_not_count(counted) -> None:
    for batch in loaders.track([1, 2, 3]):
        if batch == 2:
            break
    assert len(counted) == 1


def test_batches_are_read_ahead_no_further_than_the_depth() -> None:
    read, enough = [], threading.Event()

    def batches():
        for index in range(10):
            read.append(index)
            if len(read) == 4:
                enough.set()
            yield index

    iterator = iter(loaders.prefetch(batches(), depth=3))
    assert next(iterator) == 0
    # One given, three in the buffer, and the one that waits for room.
    assert enough.wait(10)
    assert len(read) <= 5
    assert list(iterator) == list(range(1, 10))


def test_an_exception_of_the_loader_arrives_after_the_batches_before_it() -> None:
    def batches():
        yield 1
        raise KeyError("bad record")

    all_batches = []
    with pytest.raises(KeyError, match="bad record"):
        all_batches.extend(loaders.prefetch(batches()))
    assert prefetching() == []


def test_an_iterable_that_can_t_start_says_so_in_the_training() -> None:
    with pytest.raises(TypeError):
        list(loaders.prefetch(5))


@pytest.mark.parametrize("leave", ["break", "forget"])
def test_leaving_the_loop_ends_the_thread_and_closes_the_loader(leave) -> None:
    closed = threading.Event()

    def batches():
        try:
            yield from range(1000)
        finally:
            closed.set()

    iterator = iter(loaders.prefetch(batches()))
    next(iterator)
    if leave == "break":
        iterator.close()
    else:
        del iterator
        gc.collect()
    assert closed.wait(10)
    assert prefetching() == []


def test_a_process_with_an_unfinished_prefetch_ends(session) -> None:
    code = "import itertools, powertrain_sdk as p\nit = iter(p.prefetch(itertools.count()))\nprint(next(it))"
    result = session.run("-c", code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "0\n", "")
