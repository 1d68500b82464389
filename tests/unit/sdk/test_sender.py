"""Steps reach the agent in few datagrams, with their own times, through restarts, threads and forks."""

import os
import sys
import threading
import types

import pytest

from powertrain_sdk.sender import INTERVAL_S, LEFT_LIMIT, RETRY_S, Sender

STEP, EPOCH, REACHED = 1, 2, 3


@pytest.fixture
def sender(session, clock) -> Sender:
    return Sender(session.environ, clock)


def test_the_first_step_is_sent_at_once(sender, session, clock) -> None:
    sender.step()
    (datagrams,) = session.datagrams()
    assert (datagrams.kind, datagrams.count, datagrams.total, datagrams.sequence, datagrams.at_ns) == (
        STEP,
        1,
        1,
        0,
        100 * 10**9,
    )
    assert (datagrams.uid, datagrams.pid) == (session.environ["POWERTRAIN_SESSION_UID"], os.getpid())


def test_fast_steps_share_datagrams_and_none_is_lost(sender, session, clock) -> None:
    datagrams = []
    for _ in range(1001):
        sender.step()
        clock.sleep(0.001)
        datagrams += session.datagrams()
    assert 45 <= len(datagrams) <= 51
    assert datagrams[-1].total == sum(each.count for each in datagrams)
    assert 1001 - datagrams[-1].total < INTERVAL_S / 0.001
    assert [each.sequence for each in datagrams] == list(range(len(datagrams)))


def test_steps_slower_than_the_interval_each_get_their_datagram(sender, session, clock) -> None:
    for _ in range(5):
        sender.step()
        clock.sleep(0.03)
    assert [each.count for each in session.datagrams()] == [1] * 5


def test_steps_from_before_a_pause_keep_their_own_time(sender, session, clock) -> None:
    sender.step()
    clock.sleep(0.005)
    sender.step()
    clock.sleep(10)
    sender.step()
    datagrams = session.datagrams()
    assert [(each.count, each.total, each.at_ns) for each in datagrams] == [
        (1, 1, 100_000_000_000),
        (1, 2, 100_005_000_000),
        (1, 3, 110_005_000_000),
    ]


def test_several_steps_in_one_call_count_as_several(sender, session) -> None:
    sender.step(7)
    assert [each.count for each in session.datagrams()] == [7]


@pytest.mark.parametrize("n", [0, -3])
def test_no_steps_are_no_datagram(sender, session, n) -> None:
    sender.step(n)
    assert session.datagrams() == []
    assert sender.total == 0


def test_an_epoch_brings_along_what_waited(sender, session, clock) -> None:
    sender.step()
    clock.sleep(0.001)
    sender.step()
    sender.epoch()
    sender.epoch()
    datagrams = session.datagrams()
    assert [(each.kind, each.total, each.value) for each in datagrams] == [
        (STEP, 1, 0.0),
        (STEP, 2, 0.0),
        (EPOCH, 2, 1.0),
        (EPOCH, 2, 2.0),
    ]


def test_an_accuracy_is_sent_with_its_value(sender, session) -> None:
    sender.reached(0.875)
    assert [(each.kind, each.value) for each in session.datagrams()] == [(REACHED, 0.875)]


def test_a_restarted_agent_hears_of_every_step_and_event(sender, session, clock) -> None:
    sender.step()
    session.datagrams()
    session.leave()
    for _ in range(10):
        clock.sleep(0.05)
        sender.step()
    sender.epoch()
    session.listen()
    clock.sleep(RETRY_S)
    sender.step()
    datagrams = session.datagrams()
    assert [(each.kind, each.total) for each in datagrams if each.kind == EPOCH] == [(EPOCH, 11)]
    assert datagrams[-1].total == 12
    assert sum(each.count for each in datagrams if each.kind == STEP) == 11


def test_an_absent_agent_is_asked_once_a_second(session, clock, monkeypatch) -> None:
    session.leave()
    attempts = []
    monkeypatch.setattr("powertrain_sdk.sender._connect_within", lambda *_: attempts.append(1) or os.open("/none", 0))
    sender = Sender(session.environ, clock)
    for _ in range(100):
        sender.step()
        clock.sleep(0.05)
    assert 4 <= len(attempts) <= 6


def test_an_agent_that_does_not_read_stops_nobody_and_hears_the_sum_later(sender, session, clock) -> None:
    steps = 10_000
    for _ in range(steps):
        sender.step()
        clock.sleep(INTERVAL_S)
    received = session.datagrams()
    assert len(received) < steps, "the socket's queue never filled"
    sender.step()
    later = session.datagrams()
    assert later[-1].total == steps + 1
    assert sum(each.count for each in received + later) == steps + 1


def test_outside_a_governed_container_nothing_is_opened(tmp_path, clock, monkeypatch) -> None:
    monkeypatch.setattr("powertrain_sdk.protocol.DEFAULT_DIR", str(tmp_path / "absent"))
    monkeypatch.setattr("powertrain_sdk.sender._connect_within", lambda *_: pytest.fail("opened"))
    sender = Sender({}, clock)
    sender.step()
    sender.epoch()
    assert (sender.total, sender.epochs) == (1, 1)


@pytest.mark.parametrize("name", ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"])
def test_only_local_rank_0_sends(session, clock, name) -> None:
    for rank in ("0", "1"):
        Sender({**session.environ, name: rank}, clock).step()
    assert len(session.datagrams()) == 1


def test_a_data_loader_s_worker_sends_nothing(session, clock, monkeypatch) -> None:
    data = types.ModuleType("torch.utils.data")
    data.get_worker_info = object
    monkeypatch.setitem(sys.modules, "torch.utils.data", data)
    Sender(session.environ, clock).step()
    assert session.datagrams() == []


def test_threads_lose_no_step(session) -> None:
    sender = Sender(session.environ)
    start = threading.Barrier(4)

    def train() -> None:
        start.wait()
        for _ in range(5000):
            sender.step()

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sender.flush()
    datagrams = session.datagrams()
    assert (datagrams[-1].total, sum(each.count for each in datagrams)) == (20_000, 20_000)


def held_up(session, clock, steps: int) -> Sender:
    """Return a sender whose agent reads nothing: most of its steps wait."""
    sender = Sender(session.environ, clock)
    for _ in range(steps):
        sender.step()
        clock.sleep(INTERVAL_S)
    return sender


def test_what_waits_for_a_busy_agent_is_sent_before_the_process_ends(session, clock, monkeypatch) -> None:
    sender = held_up(session, clock, 400)
    datagrams = []
    monkeypatch.setattr("powertrain_sdk.sender.time.sleep", lambda seconds: datagrams.extend(session.datagrams()))
    sender.farewell()
    datagrams += session.datagrams()
    assert datagrams[-1].total == sum(each.count for each in datagrams) == 400


def test_nobody_waits_long_for_an_agent_that_never_reads(session, clock, monkeypatch) -> None:
    sender = held_up(session, clock, 400)
    pauses_s = []
    monkeypatch.setattr("powertrain_sdk.sender.time.sleep", pauses_s.append)
    sender.farewell()
    assert 0.0 < sum(pauses_s) < 3.1


def test_nobody_waits_where_nobody_listens(session, clock, monkeypatch) -> None:
    sender = Sender(session.environ, clock)
    sender.step()
    session.leave()
    clock.sleep(INTERVAL_S)
    sender.step()
    monkeypatch.setattr("powertrain_sdk.sender.time.sleep", lambda seconds: pytest.fail("it waits"))
    sender.farewell()
    session.listen()


def test_a_step_inside_a_step_neither_blocks_nor_is_lost(session) -> None:
    """What a signal handler or another thread meets: the lock is taken."""
    sender = Sender(session.environ, lambda: 1.0)
    sender._lock.acquire()
    sender.step()
    assert sender.total == 0
    sender._lock.release()
    sender.step()
    assert sender.total == 2


def test_a_lock_that_nobody_gives_back_does_not_silence_the_training(session, clock) -> None:
    sender = Sender(session.environ, clock)
    sender._lock.acquire()
    for _ in range(LEFT_LIMIT + 2):
        sender.step()
    assert session.datagrams()[-1].total == LEFT_LIMIT + 2


def test_a_forked_child_is_a_sender_of_its_own_and_repeats_nothing(session, clock) -> None:
    sender = Sender(session.environ, clock)
    sender.step()
    sender.step()
    sender._lock.acquire()
    child = os.fork()
    if child == 0:
        sender.step()
        os._exit(0)
    os.waitpid(child, 0)
    sender._lock.release()
    sender.flush()
    datagrams = session.datagrams()
    assert [(each.pid, each.count, each.total) for each in datagrams] == [
        (os.getpid(), 1, 1),
        (child, 1, 1),
        (os.getpid(), 1, 2),
    ]
    assert len({each.sender for each in datagrams}) == 2


def test_a_forked_child_of_a_python_without_fork_hooks_sends_its_own_steps(session, clock, monkeypatch) -> None:
    sender = Sender(session.environ, clock)
    sender.step()
    monkeypatch.setattr("powertrain_sdk.sender.HAS_FORK_HOOK", False)
    sender._pid = -1
    sender.step()
    first, second = session.datagrams()
    assert first.sender != second.sender
    assert second.total == 1


def test_what_waits_is_sent_at_the_end_of_the_process(session) -> None:
    session.run("-c", "import powertrain_sdk as p\nfor _ in range(1000): p.step()")
    datagrams = session.datagrams()
    assert (datagrams[-1].total, sum(each.count for each in datagrams)) == (1000, 1000)


def test_a_path_longer_than_a_socket_s_address_works(session, tmp_path, clock) -> None:
    deep = tmp_path.joinpath(*["a-rather-long-directory-name"] * 5)
    deep.parent.mkdir(parents=True)
    deep.symlink_to(session.directory)
    Sender({**session.environ, "POWERTRAIN_SESSION_DIR": str(deep)}, clock).step()
    assert len(session.datagrams()) == 1


def test_a_read_only_mount_still_lets_steps_out(session, tmp_path) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    script = (
        'mount --bind "$1" "$2" && mount -o remount,bind,ro "$2" || exit 77; shift 2; '
        'touch "$POWERTRAIN_SESSION_DIR/x" 2>/dev/null && exit 78; exec "$@"'
    )
    code = (
        "import subprocess, sys; sys.exit(subprocess.call(['unshare', '--user', '--map-root-user', '--mount', 'sh', "
        f"'-c', {script!r}, 'sh', {str(session.directory)!r}, {str(mounted)!r}, sys.executable, '-c', "
        "'import powertrain_sdk as p; p.step()']))"
    )
    result = session.run("-c", code, environ={"POWERTRAIN_SESSION_DIR": str(mounted)})
    if result.returncode in (1, 77):
        pytest.skip(f"this machine does not let tests mount: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    assert len(session.datagrams()) == 1
