"""The loop with its threads: small while it idles, and who else uses the CPUs is seen."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from powertrain_agent.governing.foreign_load import ForeignLoad
from powertrain_agent.simulate import ManualClock
from powertrain_agent.sysfs import Sysfs

POD = "11111111-2222-3333-4444-555555555555"


def test_an_idle_agent_is_small_and_has_loaded_nothing_heavy(host_dir: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "powertrain_agent.main", "--standalone", "--simulate", "orin-agx"]
    with subprocess.Popen(
        [*command, "--host-root", str(host_dir), "--metrics-port", str(port)], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if json.loads(line)["event"] == "ready":
                break
        wait_until_loop_and_sampler_work(port)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        maps = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
        process.terminate()
        process.communicate(timeout=20)
    resident_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert resident_kb < 90 * 1024
    assert "/scipy/" not in maps
    assert "/torch/" not in maps


def wait_until_loop_and_sampler_work(port: int) -> None:
    """The loop shows readings, which come from the sampler, and heat, which it looks at after some ticks."""
    until_s = time.monotonic() + 60.0
    metric_lines = (b'powertrain_power_watts{rail="total"}', b"\npowertrain_temperature_celsius ")
    while time.monotonic() < until_s:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5.0) as page:
            text = page.read()
            if all(name in text for name in metric_lines):
                return
        time.sleep(0.1)
    raise AssertionError("no reading was shown within a minute")


class Host:
    """A host's CPU counters and those of one pod, as files."""

    def __init__(self, root: Path) -> None:
        self.stat = root / "proc/stat"
        self.pod = root / f"sys/fs/cgroup/kubepods/besteffort/pod{POD}/cpu.stat"
        for file in (self.stat, self.pod):
            file.parent.mkdir(parents=True)
        self.set(0, 0.0)

    def set(self, host_s: float, pod_s: float) -> None:
        self.stat.write_text(f"cpu {round(host_s * 100)} 0 0 12345 0 0 0 0 0 0\ncpu0 0 0 0 0\n")
        self.pod.write_text(f"usage_usec {round(pod_s * 1e6)}\nuser_usec 0\n")


def test_a_foreign_load_is_what_the_host_does_beyond_the_pods(tmp_path: Path) -> None:
    host, clock = Host(tmp_path), ManualClock()
    load = ForeignLoad(Sysfs(tmp_path), lambda: [POD], clock)
    assert load.look() is None
    clock.advance(2.0)
    host.set(12.0, 11.0)
    assert load.look() is None
    clock.advance(2.0)
    host.set(22.0, 15.0)
    assert load.look() == "foreign load: others use 3.0 cores"


def test_without_counters_no_foreign_load_is_claimed(tmp_path: Path) -> None:
    clock = ManualClock()
    load = ForeignLoad(Sysfs(tmp_path), lambda: [POD], clock)
    load.look()
    clock.advance(1.0)
    assert load.look() is None
