"""Carries step counts to the agent: cheap, never blocking, never raising, and safe with threads and forks.

A step is sent at once when the last datagram is INTERVAL_S old, otherwise counted and sent with a later one, so a
training makes at most about fifty datagrams a second whatever its speed. Nobody waits for a lock: a thread that finds
it taken leaves its steps in a queue for the one that holds it.
"""

import os
import sys
import time
from collections import deque

from powertrain_sdk import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from _thread import LockType
    from typing import Callable, Deque, Mapping, Optional, Tuple

# Short against the seconds of a measuring window, long against the microseconds of a send.
INTERVAL_S = 0.02
# An agent restarts within seconds; asking once a second costs nothing.
RETRY_S = 1.0
NEVER_S = float("inf")
OUTBOX_LIMIT = 16
# The kernel keeps ten datagrams or so for an agent that is busy. It reads them ten times a second, but not while
# it sets clocks or waits for a processor, which takes up to seconds on a board whose cores are few and loaded.
FAREWELL_TRIES, FAREWELL_PAUSE_S = 300, 0.01
# So many steps left behind by threads that found the lock taken: whoever took it was killed by an exception (a signal
# handler's, between two instructions) and will not give it back.
LEFT_LIMIT = 100000
# Python before 3.7 tells nobody about a fork, so there every call looks at the process id.
HAS_FORK_HOOK = hasattr(os, "register_at_fork")


def _new_lock() -> "LockType":
    # threading would cost every Python process of the container a millisecond at its start.
    import _thread

    return _thread.allocate_lock()


class Sender:
    """One process's line to the agent. Counts always; sends only in a governed container, from local rank 0."""

    def __init__(
        self,
        environ: "Optional[Mapping[str, str]]" = None,
        clock: "Callable[[], float]" = time.monotonic,
    ) -> None:
        """Read nothing and open nothing: the first step does."""
        self._environ = os.environ if environ is None else environ
        self._clock = clock
        self._socket: "Optional[socket.socket]" = None
        if sys.version_info >= (3, 7):
            os.register_at_fork(after_in_child=self.forget)
        self.forget()

    def forget(self) -> None:
        """Start anew, as a forked child must: what was not sent yet is the parent's to send."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()
        self._lock = _new_lock()
        self._pid = os.getpid()
        self._left: "Deque[int]" = deque()
        self._outbox: "Deque[Tuple[int, int, float, int, float]]" = deque(maxlen=OUTBOX_LIMIT)
        self._due_s = 0.0
        self._last_step_s = 0.0
        self._id = 0
        self._sequence = 0
        self._sent_total = 0
        self._uid = b""
        self._introduced = False
        self.first_step_s: "Optional[float]" = None
        self.total = 0
        self.epochs = 0

    def step(self, n: int = 1) -> None:
        """Count n steps that ended now. Raises on an n that is no number; the caller swallows that."""
        if n != 1:
            n = int(n)
            if n < 1:
                return
        if not HAS_FORK_HOOK:
            self._forget_if_forked()
        lock = self._lock
        if not lock.acquire(False):
            self._leave(n)
            return
        try:
            now_s = self._clock()
            if self._left:
                n += self._take_left()
            self.total += n
            if now_s >= self._due_s:
                self._send_steps(now_s, self.total - n)
            self._last_step_s = now_s
        finally:
            lock.release()

    def epoch(self) -> None:
        """Send what waits, and that an epoch has ended."""
        self.epochs += 1
        self._event(protocol.KIND_EPOCH, float(self.epochs))

    def reached(self, accuracy: float) -> None:
        """Send what waits, and that this accuracy was reached."""
        self._event(protocol.KIND_REACHED, accuracy)

    def device(self, on_gpu: bool) -> None:
        """Send what waits, and whether the training computes on the GPU."""
        self._event(protocol.KIND_DEVICE, 1.0 if on_gpu else 0.0)

    def flush(self) -> None:
        """Send what waits, if there is anything and somebody listens."""
        if not HAS_FORK_HOOK:
            self._forget_if_forked()
        lock = self._lock
        if not lock.acquire(False):
            return
        try:
            self.total += self._take_left()
            if self._waits():
                self._drain(self._clock(), self._last_step_s, self.total)
        finally:
            lock.release()

    def farewell(self) -> None:
        """Send what waits before the process ends; the one call that waits, for a moment, where the agent is busy."""
        self.flush()
        for _ in range(FAREWELL_TRIES):
            if self._socket is None or not self._waits():
                return
            time.sleep(FAREWELL_PAUSE_S)
            self.flush()

    def _waits(self) -> bool:
        return bool(self._outbox) or self.total > self._sent_total

    def _event(self, kind: int, value: float) -> None:
        self.flush()
        self._outbox.append((kind, 1, self._clock(), self.total, value))
        self.flush()

    def _forget_if_forked(self) -> None:
        if os.getpid() != self._pid:
            self.forget()

    def _leave(self, n: int) -> None:
        self._left.append(n)
        if len(self._left) > LEFT_LIMIT:
            self._lock = _new_lock()

    def _take_left(self) -> int:
        count = 0
        while self._left:
            count += self._left.popleft()
        return count

    def _send_steps(self, now_s: float, earlier_total: int) -> None:
        if self.first_step_s is None:
            self.first_step_s = now_s
        if earlier_total > self._sent_total and now_s - self._last_step_s >= INTERVAL_S:
            # Steps from before a pause keep their own time, or the pause would look like slow steps.
            self._drain(now_s, self._last_step_s, earlier_total)
            if self._sent_total < earlier_total:
                return
        self._drain(now_s, now_s, self.total)

    def _drain(self, now_s: float, steps_at_s: float, total: int) -> None:
        """Send events that wait, then the steps up to this total; plan the next attempt. The lock is held."""
        self._due_s = now_s + INTERVAL_S
        while self._outbox:
            if not self._post(now_s, *self._outbox[0]):
                return
            self._outbox.popleft()
        count = total - self._sent_total
        if count > 0 and self._post(now_s, protocol.KIND_STEP, count, steps_at_s, total, 0.0):
            self._sent_total = total

    def _post(self, now_s: float, kind: int, count: int, at_s: float, total: int, value: float) -> bool:
        connection = self._socket or self._connect(now_s)
        if connection is None:
            return False
        datagram = protocol.pack(
            kind, self._uid, self._sequence, int(at_s * 1e9), count, total, value, self._id, self._pid, 0
        )
        try:
            connection.send(datagram)
        except BlockingIOError:
            return False
        except OSError:
            self._socket = None
            connection.close()
            self._due_s = now_s + RETRY_S
            return False
        self._sequence += 1
        return True

    def _connect(self, now_s: float) -> "Optional[socket.socket]":
        if not self._may_send():
            self._due_s = NEVER_S
            return None
        import socket

        self._due_s = now_s + RETRY_S
        if not self._introduced:
            self._introduce()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            connection.setblocking(False)
            _connect_within(connection, protocol.session_dir(self._environ))
        except OSError:
            connection.close()
            return None
        self._uid = self._uid or protocol.session_uid(self._environ)
        self._due_s = now_s + INTERVAL_S
        self._socket = connection
        return connection

    def _introduce(self) -> None:
        import atexit

        self._id = int.from_bytes(os.urandom(8), "little")
        atexit.register(self.farewell)
        self._introduced = True

    def _may_send(self) -> bool:
        governed = protocol.ENV_DIR in self._environ or os.path.isdir(protocol.DEFAULT_DIR)
        return governed and protocol.local_rank(self._environ) == 0 and not _is_loader_worker()


def _connect_within(connection: "socket.socket", directory: str) -> None:
    """Connect by way of the open directory: a socket's address has room for 107 bytes only, a path may be longer."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        connection.connect("/proc/self/fd/%d/%s" % (descriptor, protocol.SOCKET_NAME))
    finally:
        os.close(descriptor)


def _is_loader_worker() -> bool:
    """Tell whether this process only loads data for a PyTorch DataLoader."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None
