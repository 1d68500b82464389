"""The parts of the demo that need no cluster: yardsticks, meter, view, report."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from powertrain import devices
from powertrain.modes import PowerMode
from powertrain_devcluster.demo import report, site, truth
from powertrain_devcluster.demo.meter import Meter
from powertrain_devcluster.demo.scenario import BOARDS, FAST, SITE_W, WORKLOAD, Settings, site_job, training_job
from powertrain_devcluster.demo.site import _all_share, _has_grown
from powertrain_devcluster.demo.snapshot import Snapshot
from powertrain_devcluster.demo.view import View

MODE = "12c_1651200_624750000_2133000000"


def board(**more: Any) -> dict[str, Any]:
    figures = {"step_s": 0.14, "step_pm_s": 0.01, "power_w": 28.4, "power_pm_w": 1.0}
    environment = {
        "node": "agx",
        "device": "orin-agx",
        "phase": "Running",
        "mode": MODE,
        "human": PowerMode.parse(MODE).human,
        "limit_w": 30.0,
        "power_w": 28.4,
        "predicted": figures,
        "observed": figures,
        "message": f"{PowerMode.parse(MODE).human}: fastest",
        "modes_tried": 12,
        "profiling_s": 300.0,
        "steps": 100,
        "violations": 0,
        "tried": [],
    }
    return environment | more


@pytest.mark.parametrize("place", BOARDS, ids=lambda place: place.device)
def test_brute_force_is_the_fastest_within_the_limit_and_full_clocks_break_it(place: Any) -> None:
    best = truth.brute_force(place.device, WORKLOAD, place.budget_w)
    full = truth.full_clocks(place.device, WORKLOAD)
    assert best.power_w <= place.budget_w < full.power_w
    assert full.step_s < best.step_s


def test_the_preset_is_the_largest_that_names_no_more_watts() -> None:
    presets = [truth.preset(place.device, WORKLOAD, place.budget_w) for place in BOARDS]
    assert [preset.name for preset in presets if preset] == ["MODE_30W", "15W", "7W"]
    assert truth.preset("orin-agx", WORKLOAD, 10.0) is None


def test_the_job_asks_for_each_boards_budget() -> None:
    spec = training_job(FAST)["spec"]
    overrides = {o["nodeSelector"]["powertrain.io/device"]: o["constraints"] for o in spec["placement"]["overrides"]}
    assert spec["constraints"]["powerWatts"] == 30
    assert overrides == {"xavier-agx": {"powerWatts": 20}, "orin-nano": {"powerWatts": 8}}
    assert spec["profiling"]["maxModes"] < Settings().max_modes


def test_a_meter_takes_the_median_of_fresh_reports_and_starts_anew_with_a_mode() -> None:
    meter = Meter()
    for step_s in (9.0, 9.0, 0.14, 0.14, 0.30, 0.16):
        meter.see(board(observed={"step_s": step_s, "power_w": 28.0}))
    assert meter.medians() == {"step_s": 0.16, "power_w": 28.0}
    meter.see(board(mode="12c_115200_114750000_204000000"))
    assert meter.medians() is None


def test_the_report_holds_the_run_against_its_yardsticks() -> None:
    outcome = report.Outcome(BOARDS[0], 30.0, board(), {"step_s": 0.141, "power_w": 28.3})
    stream = io.StringIO()
    Console(file=stream, width=160).print(report.table([outcome]))
    text = stream.getvalue()
    for words in ("PowerTrain, predicted", "PowerTrain, observed", "brute force", "preset MODE_30W", "MAXN"):
        assert words in text
    assert "51.2 (above)" in text
    assert "12 of 1,508 modes tried" in report.summary([outcome])[0]


def test_a_pipe_gets_a_line_for_each_better_mode_and_no_colours() -> None:
    stream = io.StringIO()
    tried = [
        {"human": "a", "step_s": 0.5, "power_w": 20.0, "unsafe": False},
        {"human": "b", "step_s": 0.6, "power_w": 21.0, "unsafe": False},
        {"human": "c", "step_s": 0.2, "power_w": 31.0, "unsafe": True},
        {"human": "d", "step_s": 0.3, "power_w": 25.0, "unsafe": False},
    ]
    with View(Console(file=stream, width=160)) as view:
        for count in (1, 2, 4, 4):
            view.show(Snapshot({"boards": [board(tried=tried[:count])], "name": "demo", "phase": "Profiling"}, {}))
    lines = [line.strip().split("  ", 1)[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        "agx: best so far a, 500.0 ms a step, 20.0 of 30 W",
        "agx: c left at once: a reading above 30 W",
        "agx: best so far d, 300.0 ms a step, 25.0 of 30 W",
    ]
    assert "\x1b" not in stream.getvalue()


def test_a_pipe_is_told_now_and_then_how_training_and_fronts_grow() -> None:
    stream, now_s = io.StringIO(), [0.0]
    with View(Console(file=stream, width=160), lambda: now_s[0]) as view:
        for second in range(25):
            now_s[0] = float(second)
            boards = [board(steps=1000 * second), board(node="nano", steps=0)]
            view.show(Snapshot({"boards": boards, "name": "demo", "phase": "Profiling"}, {}, {"agx": 2 * second}))
    assert stream.getvalue().splitlines() == [
        " 10.0 s  trained so far: agx 10,000 steps, front of 20 modes",
        " 20.0 s  trained so far: agx 20,000 steps, front of 40 modes",
    ]


def test_a_terminal_gets_a_picture_with_watts_annotations_and_steps() -> None:
    stream = io.StringIO()
    annotations = {"agx": {"power-mode": MODE, "power-budget-watts": "30"}}
    snapshot = Snapshot({"boards": [board()], "name": "demo", "phase": "Running"}, {}, {"agx": 40}, annotations)
    with View(Console(file=stream, width=160, force_terminal=True)) as view:
        view.waiting("the API server")
        view.tell("cluster up")
        view.waiting("agents")
        assert "waiting for agents" in stream.getvalue().partition("cluster up")[2], "what was told stays in sight"
        view.show(snapshot)
    text = stream.getvalue()
    for words in ("waiting for the API server", "28.4 of 30 W", "power-budget-watts=30", "cluster up", "waits"):
        assert words in text


def fresh_machine(tmp_path: Path, go: str) -> dict[str, str]:
    """Return the environment of a machine where nothing is built yet, and whose Go tool builds by this script."""
    program = tmp_path / "bin/go"
    program.parent.mkdir()
    version = 'if [ "$1" = version ]; then echo go version go1.26.0 linux/amd64; exit; fi'
    program.write_text(f"#!/bin/sh\n{version}\n{go}\n")
    program.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name not in ("KUBEBUILDER_ASSETS", "NO_COLOR")}
    path = f"{program.parent}:{os.environ['PATH']}"
    return {**env, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": path, "TERM": "xterm"}


def demo(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "powertrain_devcluster.demo", *arguments]


def test_the_first_build_is_told_into_a_pipe_while_it_lasts(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    env = fresh_machine(tmp_path, f"until [ -e {gate} ]; do sleep 0.02; done; echo 'no such module' >&2; exit 1")
    with subprocess.Popen(
        demo(), env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert "waiting for Go to build Kubernetes" in running.stderr.readline()
        gate.touch()
        output, errors = running.communicate()
    assert output.startswith("Three simulated Jetsons")
    assert (running.returncode, errors.count("\n")) == (3, 1)
    assert errors.startswith("error: building Kubernetes")
    assert errors.endswith("failed: no such module\n")


def test_the_first_build_is_told_on_a_terminal_while_it_lasts(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    env = fresh_machine(tmp_path, f"until [ -e {gate} ]; do sleep 0.02; done; exit 1")
    ours, theirs = pty.openpty()
    with subprocess.Popen(demo(), env=env, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        output = b""
        while b"waiting for Go to build Kubernetes" not in output:
            output += os.read(ours, 4096)
        gate.touch()
    os.close(ours)
    assert running.returncode == 3


def test_a_plot_that_cannot_be_written_is_told_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = fresh_machine(tmp_path, f"touch {tmp_path}/started; exit 1")
    for plot, code, words in (
        ("file/demo.svg", 3, "error: file: File exists"),
        ("demo.txt", 2, "error: can't draw demo.txt: the name must end in .svg or .png"),
    ):
        result = subprocess.run(
            demo("--plot", plot), env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stderr) == (code, f"{words}\n")
    assert not (tmp_path / "started").exists()


# One cap over all boards


def test_every_board_has_a_job_under_the_cap_that_its_profile_fits() -> None:
    profiled = training_job(FAST)["spec"]["workload"]
    for place in BOARDS:
        job = site_job(FAST, place)
        workload = job["spec"]["workload"]
        assert (workload["name"], workload["template"]) == (profiled["name"], profiled["template"])
        assert workload["epochs"] > 0
        assert job["spec"]["placement"]["nodeSelector"] == {"powertrain.io/device": place.device}


def test_the_cap_lets_all_boards_train_and_is_less_than_they_could_take() -> None:
    full = sum(truth.full_clocks(place.device, WORKLOAD).power_w for place in BOARDS)
    least = sum(
        truth.at(
            place.device, WORKLOAD, PowerMode(devices.get(place.device).cores, *lowest_clocks(place.device))
        ).power_w
        for place in BOARDS
    )
    assert 1.1 * least < SITE_W < 0.6 * full


def lowest_clocks(device: str) -> tuple[int, int, int]:
    tables = devices.get(device).tables
    return tables.cpu_khz.values[0], tables.gpu_hz.values[0], tables.emc_hz.values[0]


def test_the_plot_shows_the_sum_below_the_cap_and_what_is_above_it() -> None:
    picture = site.plot([12.0, 24.0, 48.0], 48.0, width=3, height=4)
    assert [line.partition("|")[2] for line in picture] == ["", "---", "  █", "  █", " ██", "███"]
    assert site.plot([12.0, 60.0], 48.0)[0].endswith("| █")
    assert len(site.plot([40.0] * 500, 48.0, width=64)[1].partition("|")[2]) == 64
    assert site.plot([], 48.0) == []


def share(**more: Any) -> dict[str, Any]:
    return {"job": "default/a", "share_w": 10.0, "confirmed": True, "speed": 0.5} | more


def test_watts_count_as_passed_on_when_the_others_have_more_and_keep_it() -> None:
    before = {"xavier": share(), "nano": share(share_w=5.0)}
    assert _all_share(before, ["xavier", "nano"])
    assert not _all_share({"xavier": share(confirmed=False), "nano": share()}, ["xavier", "nano"])
    assert not _has_grown(before, before, ["xavier", "nano"])
    assert _has_grown(before, {"xavier": share(share_w=16.0), "nano": share(share_w=5.0)}, ["xavier", "nano"])
    assert not _has_grown(before, {"xavier": share(share_w=16.0, confirmed=False), "nano": share()}, ["xavier", "nano"])
