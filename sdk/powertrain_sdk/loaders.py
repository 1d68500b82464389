"""Wraps data loaders: count a step for each batch, or fetch the next batches while the current one trains."""

import sys
from collections import deque

from powertrain_sdk.steps import step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Deque, Iterable, Iterator, Optional, Tuple, TypeVar

    Batch = TypeVar("Batch")

# A loader that is stuck in its own reading may not keep a training from ending.
JOIN_S = 5.0


def track(loader: "Iterable[Batch]") -> "Iterable[Batch]":
    """Return the loader, counting a step whenever the body of the loop over it has run to its end."""
    return _Tracked(loader)


def prefetch(loader: "Iterable[Batch]", depth: int = 2) -> "Iterable[Batch]":
    """Return the loader with up to `depth` batches read ahead by a thread; its exceptions arrive where they would."""
    return _Prefetched(loader, max(1, int(depth)))


class _Wrapper:
    """Looks like the loader it wraps: its length and whatever else it has."""

    def __init__(self, loader: "Iterable[Any]") -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> "Any":
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)


class _Tracked(_Wrapper):
    def __iter__(self) -> "Iterator[Any]":
        for batch in self._loader:
            yield batch
            step()


class _Prefetched(_Wrapper):
    def __init__(self, loader: "Iterable[Any]", depth: int) -> None:
        _Wrapper.__init__(self, loader)
        self._depth = depth

    def __iter__(self) -> "Iterator[Any]":
        import threading

        buffer = _Buffer(self._depth)
        thread = threading.Thread(target=_fill, args=(self._loader, buffer), name="powertrain-prefetch", daemon=True)
        thread.start()
        try:
            while True:
                batch, error = buffer.take()
                if isinstance(error, _EndError):
                    return
                if error is not None:
                    raise error
                yield batch
        finally:
            buffer.stop()
            # While the interpreter ends, daemon threads no longer run and joining one would only wait.
            if not sys.is_finalizing():
                thread.join(JOIN_S)


class _EndError(Exception):
    """Marks the end of a loader's batches; never raised."""


class _Buffer:
    """A few batches between the thread that reads them and the training."""

    def __init__(self, depth: int) -> None:
        import threading

        self._depth = depth
        self._changed = threading.Condition()
        self._stopped = False
        self._items: "Deque[Tuple[Any, Optional[BaseException]]]" = deque()

    def put(self, batch: "Any", error: "Optional[BaseException]" = None) -> bool:
        """Add a batch as soon as there is room; False when nobody wants it any more."""
        with self._changed:
            while len(self._items) >= self._depth and not self._stopped:
                self._changed.wait()
            if self._stopped:
                return False
            self._items.append((batch, error))
            self._changed.notify_all()
            return True

    def take(self) -> "Tuple[Any, Optional[BaseException]]":
        """Return the next batch, or what ended them, as soon as there is one."""
        with self._changed:
            while not self._items:
                self._changed.wait()
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def stop(self) -> None:
        """Let the reading thread end."""
        with self._changed:
            self._stopped = True
            self._items.clear()
            self._changed.notify_all()


def _fill(loader: "Iterable[Any]", buffer: _Buffer) -> None:
    end: BaseException = _EndError()
    try:
        batches = iter(loader)
        for batch in batches:
            if not buffer.put(batch):
                break
        close = getattr(batches, "close", None)
        if close is not None:
            close()
    except BaseException as error:
        end = error
    buffer.put(None, end)
