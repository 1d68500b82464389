"""A step costs a training next to nothing; benchmarks/sdk.py has the figures, this only catches a blunder."""

import subprocess
import sys
import time

import pytest

from powertrain_sdk import steps
from powertrain_sdk.sender import Sender

SDK = steps.__file__.rpartition("/powertrain_sdk/")[0]


def cpu_s_a_call(function, calls: int) -> float:
    """Return the least CPU time of several repeats: other load on the machine only ever adds."""

    def repeat() -> float:
        started_s = time.thread_time()
        for _ in range(calls):
            function()
        return (time.thread_time() - started_s) / calls

    return min(repeat() for _ in range(7))


@pytest.mark.parametrize("governed", [True, False])
def test_a_step_costs_less_than_five_microseconds(session, monkeypatch, governed) -> None:
    environ = session.environ if governed else {"POWERTRAIN_SESSION_DIR": "/nonexistent"}
    monkeypatch.setattr(steps, "_reporter", steps.Reporter(Sender(environ)))
    assert cpu_s_a_call(steps.step, 5000) < 5e-6


def test_the_sdk_is_imported_without_the_slow_parts_of_the_library() -> None:
    slow = ("typing", "threading", "socket", "json", "re", "argparse", "subprocess", "asyncio")
    code = f"import sys, powertrain_sdk; print([name for name in {slow} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {SDK!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "[]"
