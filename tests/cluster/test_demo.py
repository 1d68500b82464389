"""The demo as a user runs it: to its end, interrupted, killed and broken; nothing is left behind any way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from powertrain_devcluster.testing.waits import wait_for

pytestmark = pytest.mark.timeout(900)
# Into a pipe the table is as wide as it is, unless somebody says how wide; parallel workers of pytest do.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
COMMAND = [sys.executable, "-m", "powertrain_devcluster.demo", "--fast"]


def processes_of(scratch: Path) -> dict[int, str]:
    """Return the processes that were started for this scratch folder: every one of them inherits its name."""
    needle, commands = f"TMPDIR={scratch}".encode(), {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if any(part.startswith(needle) for part in (entry / "environ").read_bytes().split(b"\0")):
                commands[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return commands


@pytest.fixture
def scratch(tmp_path: Path, cluster_binaries: dict[str, Path]) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def expect_table(text: str) -> None:
    """Fails unless each board's part of the table has its yardsticks, and only full clocks are above the limit."""
    lines = text.splitlines()
    for device, limit_w, preset in (("orin-agx", 30, "MODE_30W"), ("xavier-agx", 20, "15W"), ("orin-nano", 8, "7W")):
        first = next(place for place, line in enumerate(lines) if re.match(rf"{device} +{limit_w} ", line))
        rows = lines[first : first + 6]
        names = ("PowerTrain, predicted", "PowerTrain, observed", "the same mode, true", "brute force, true")
        for row, name in zip(rows, (*names, f"preset {preset}, true", "MAXN, true"), strict=True):
            assert name in row
            assert re.search(r"\d+c/[\d.]+C/[\d.]+G/[\d.]+M +[\d.]+ .*×$", row), row
        assert "(above)" in rows[5]
        assert rows[3].endswith("1.00×")
        assert f"{device} at {limit_w} W: " in text


def test_the_fast_demo_runs_to_its_end_and_leaves_nothing(scratch: Path, tmp_path: Path) -> None:
    plot = tmp_path / "demo.svg"
    result = subprocess.run(
        [*COMMAND, "--plot", str(plot)],
        env={**ENVIRONMENT, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    output = result.stdout
    for words in (
        "cluster up",
        "agents have joined: agx (orin-agx), xavier (xavier-agx), nano (orin-nano)",
        "best so far",
        "agx has chosen",
        "edited the running job: agx may now take 22 W instead of 30 W",
        "runs in another mode",
        "the original settings of every board are restored",
        "applied PowerBudget site: 48 W for all three boards together, and a job for each",
        "its watts went to the others: ",
    ):
        assert words in output
    assert "\x1b" not in output
    page = plot.with_name("demo.html").read_text(encoding="utf-8")
    assert page.count("Source: the history that the job keeps since its session ended") == 3, "one for each board"
    budget = plot.with_name("powerbudget-site.html")
    assert f"the report of the budget: {budget.as_uri()}" in output
    assert "boards take" in budget.read_text(encoding="utf-8")
    match = re.search(r"the Nodes carry it in their annotations: (.*)", output)
    assert match is not None
    for node, watts in (("agx", 30), ("nano", 8), ("xavier", 20)):
        assert re.search(rf"\b{node}: \d+c_\d+_\d+_\d+ within {watts} W", match[1]), match[1]
    expect_table(output)
    highest = re.search(r"at most ([\d.]+) of 48 W; when one job ended its watts went to the others", output)
    assert highest is not None
    assert 24.0 < float(highest[1]) <= 48.0
    trained = re.findall(r"trained so far: .*\bagx ([\d,]+) steps, front of (\d+) modes", output)
    steps = [int(count.replace(",", "")) for count, _ in trained]
    assert 2 <= len(steps) <= 60, output
    assert steps == sorted(steps)
    assert int(trained[-1][1]) > 1, output
    assert plot.read_text().count("limit") >= 3
    assert list(scratch.iterdir()) == []
    expect_nothing_left(scratch)


@pytest.fixture
def demo(scratch: Path) -> Iterator[subprocess.Popen[str]]:
    # A background job's children ignore interrupts; this one is to be interrupted wherever the tests run.
    command = ["env", "--default-signal=INT,HUP", *COMMAND]
    env = {**ENVIRONMENT, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        yield running
        running.kill()


def wait_line(demo: subprocess.Popen[str], words: str) -> None:
    assert demo.stdout is not None
    assert any(words in line for line in demo.stdout), f"{words!r} was never said"


def expect_nothing_left(scratch: Path) -> None:
    wait_for("its processes to be gone", lambda: processes_of(scratch), lambda rest: not rest)
    wait_for("its folder to be gone", lambda: list(scratch.iterdir()), lambda rest: not rest)


@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGINT, "agents have joined"), (signal.SIGHUP, "cluster up")],
    ids=["ctrl-c", "hangup"],
)
def test_an_interrupted_demo_leaves_nothing(
    demo: subprocess.Popen[str], scratch: Path, number: signal.Signals, moment: str
) -> None:
    wait_line(demo, moment)
    demo.send_signal(number)
    _, errors = demo.communicate()
    assert (demo.returncode, errors) == (130, "interrupted; nothing was left behind\n")
    assert list(scratch.iterdir()) == []
    expect_nothing_left(scratch)


def test_a_killed_demo_leaves_nothing(demo: subprocess.Popen[str], scratch: Path) -> None:
    wait_line(demo, "cluster up")
    demo.kill()
    expect_nothing_left(scratch)


def test_a_demo_whose_api_server_dies_ends_with_one_line(demo: subprocess.Popen[str], scratch: Path) -> None:
    wait_line(demo, "agents have joined")
    [server] = [pid for pid, command in processes_of(scratch).items() if "kube-apiserver" in command.split(" ")[0]]
    os.kill(server, signal.SIGKILL)
    _, errors = demo.communicate()
    assert demo.returncode == 3
    assert re.fullmatch(r"error: the demo's API server does not answer.*\n", errors), errors
    expect_nothing_left(scratch)
