"""A process is known by its number, its start and its boot: a number that was given again is another process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from powertrain_agent.process import Process


def test_a_process_is_alive_until_it_ends_even_if_nobody_collects_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = Process.of(child.pid)
        assert process is not None
        assert process.is_alive
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and left as a zombie
        assert not process.is_alive
        assert Process.of(child.pid) is None


def test_another_process_with_the_same_number_is_another_one() -> None:
    here = Process.of(os.getpid())
    assert here is not None
    assert Process.from_dict(here.as_dict()) == here
    assert not replace(here, started_ticks=here.started_ticks - 1).is_alive
    assert not replace(here, boot_id="another").is_alive
