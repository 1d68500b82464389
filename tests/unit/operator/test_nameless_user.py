"""The watches start for a user without a name, as a container's user often is."""

from __future__ import annotations

import io
import pwd
import threading
from types import SimpleNamespace

import pytest

from powertrain_kube import Log
from powertrain_operator.resources import LEASE
from powertrain_operator.runtime.kopf_watch import KopfWatch
from powertrain_operator.runtime.messages import Message
from powertrain_operator.settings import Settings


def test_watches_do_not_ask_for_the_name_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", nameless)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    stop, lines = threading.Event(), io.StringIO()

    def load() -> SimpleNamespace:
        # The watches have got as far as asking how to reach the server.
        stop.set()
        watch.end()
        raise ConnectionError("this is enough")

    messages: list[Message] = []
    watch = KopfWatch([LEASE], "here", load, Settings(), messages.append, Log(lines), stop.set)
    watch.run(stop)
    assert "uid not found" not in lines.getvalue()
    assert stop.is_set()
