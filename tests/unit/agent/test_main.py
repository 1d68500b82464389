"""The agent says what it can do, cleans up after an earlier run or holds a job's mode, and ends on SIGTERM."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from powertrain import PowerMode
from powertrain_agent.board_restorer import SESSION, BoardRestorer
from powertrain_agent.control.controller import Controller
from powertrain_agent.control.snapshot import SnapshotStore
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.hardware.board import discover
from powertrain_agent.main import SetupError, open_runtime, parser, run, serve
from powertrain_agent.simulate import Fault, FaultKind, ManualClock, SimulatedBoard
from powertrain_agent.site import POLICY
from powertrain_agent.telemetry import PowerSource
from powertrain_kube.log import Log

BoardFactory = Callable[..., SimulatedBoard]

LOW = PowerMode(12, 729600, 318750000, 665600000)
POD = "11111111-2222-3333-4444-555555555555"


class Machine:
    """A board with an agent's state directory, and agents that come and go."""

    def __init__(self, simulated: SimulatedBoard, clock: ManualClock) -> None:
        self.board, self.clock = simulated, clock
        self.state_dir = simulated.root / "var/lib/powertrain"
        self.lines = io.StringIO()

    def agent(self) -> BoardRestorer:
        sysfs = self.board.sysfs
        store = SnapshotStore(StateDir(self.state_dir), sysfs)
        controller = Controller(sysfs, discover(sysfs), store, pause=lambda seconds: None)
        return BoardRestorer(controller, self.state_dir, Log(self.lines), self.clock)

    def start_job(self) -> None:
        self.state_dir.mkdir(parents=True, exist_ok=True)
        (self.state_dir / SESSION).write_text(json.dumps({"uid": "s-1", "podUIDs": [POD]}))
        self.board.add_pod(POD)
        self.agent().controller.apply(LOW)

    def gpu_hz(self) -> int:
        return int(self.board.sysfs.read(f"{self.board.sysfs.layout.devfreq}/max_freq"))

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]


def test_the_policy_on_the_disk_counts_from_the_first_moment(board: BoardFactory) -> None:
    root = board().root
    (root / "var/lib/kubelet").mkdir(parents=True, exist_ok=True)
    (root / "var/lib/kubelet/cpu_manager_state").write_text('{"policyName": "none"}')
    policy = {"cpuCores": "Hotplug", "minCores": 8, "powerOffsetWatts": 2.5}
    (root / "var/lib/powertrain").mkdir(parents=True)
    (root / "var/lib/powertrain" / POLICY).write_text(json.dumps({"asked": policy, "inForce": policy}))
    options = parser().parse_args(["--host-root", str(root), "--simulate", "orin-agx", "--cpu-cores", "Fixed"])
    sources: list[PowerSource] = []

    def watch_source(source: PowerSource) -> PowerSource:
        sources.append(source)
        return source

    runtime = open_runtime(options, Log(io.StringIO()), wrap_source=watch_source)
    assert runtime.board_restorer.controller.space.cores.tolist() == [8, 9, 10, 11, 12]
    reading = sources[0].read()
    assert reading.power_w == pytest.approx(sum(reading.rails_w.values()) + 2.5)


@pytest.fixture
def machine(board: BoardFactory, clock: ManualClock) -> Machine:
    return Machine(board(), clock)


def test_a_mode_that_no_session_holds_is_restored_at_start_up(machine: Machine) -> None:
    machine.agent().controller.apply(LOW)
    machine.agent().tick()
    assert machine.gpu_hz() == 1300500000
    assert machine.events()[-1]["reason"] == "no session is recorded"


def test_a_restarted_agent_holds_the_mode_while_the_jobs_pod_lives(machine: Machine) -> None:
    machine.start_job()
    machine.board.nvpmodel()
    board_restorer = machine.agent()
    for _ in range(3):
        machine.clock.advance(400.0)
        board_restorer.tick()
        assert machine.gpu_hz() == LOW.gpu_hz
    assert [event["event"] for event in machine.events()] == ["hold"]


def test_somebody_elses_change_is_undone_while_the_job_runs_and_said(machine: Machine) -> None:
    machine.start_job()
    board_restorer = machine.agent()
    board_restorer.tick()
    machine.board.nvpmodel(preset=2)
    board_restorer.tick()
    assert machine.gpu_hz() == LOW.gpu_hz
    assert any("max_freq = 624750000" in change for change in machine.events()[-1]["foreign"])  # type: ignore[attr-defined]


def test_without_the_api_server_the_board_is_restored_once_the_pod_is_gone_for_ten_minutes(machine: Machine) -> None:
    machine.start_job()
    board_restorer = machine.agent()
    board_restorer.tick()
    machine.board.remove_pod(POD)
    board_restorer.tick()
    machine.clock.advance(599.0)
    board_restorer.tick()
    assert machine.gpu_hz() == LOW.gpu_hz
    machine.clock.advance(2.0)
    board_restorer.tick()
    assert machine.gpu_hz() == 1300500000


def test_a_session_file_that_can_not_be_read_keeps_the_lower_power(machine: Machine) -> None:
    machine.start_job()
    (machine.state_dir / SESSION).write_text("{half")
    machine.board.remove_pod(POD)
    board_restorer = machine.agent()
    machine.clock.advance(1e6)
    board_restorer.tick()
    assert machine.gpu_hz() == LOW.gpu_hz


def test_a_restore_that_fails_is_named_and_tried_again(machine: Machine) -> None:
    machine.agent().controller.apply(LOW)
    machine.board.inject(Fault(FaultKind.FAIL_WRITE, "*/devfreq/*"))
    board_restorer = machine.agent()
    board_restorer.tick()
    assert "refused with EIO" in str(machine.events()[-1]["problems"])
    machine.board.clear()
    board_restorer.tick()
    assert machine.gpu_hz() == 1300500000


def test_a_reboot_voids_what_was_found(machine: Machine) -> None:
    machine.start_job()
    machine.board.reboot()
    machine.agent().tick()
    assert machine.gpu_hz() == 1300500000
    assert machine.events() == []


def test_a_plain_pc_is_served_without_a_write(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    stop, lines = threading.Event(), io.StringIO()
    stop.set()
    serve(parser().parse_args(["--host-root", str(tmp_path)]), Log(lines), stop)
    first = json.loads(lines.getvalue().splitlines()[0])
    assert first["jetson"] is False
    assert "changes nothing here" in first["reason"]
    assert not (tmp_path / "var").exists()


def without_memory_lock(simulated: SimulatedBoard) -> None:
    shutil.rmtree(simulated.root / "sys/kernel/debug")
    simulated.sysfs.faults.add(Fault(FaultKind.VANISH, simulated.sysfs.layout.emc_cap))


def without_sensor(simulated: SimulatedBoard) -> None:
    shutil.rmtree(simulated.root / "sys/bus/i2c")


def unknown_to_the_catalogue(simulated: SimulatedBoard) -> None:
    compatible = simulated.root / "proc/device-tree/compatible"
    compatible.unlink()
    compatible.write_text("nvidia,p9999-0000+p9998-0001\0nvidia,tegra999\0")


def full_disk(simulated: SimulatedBoard) -> None:
    (simulated.root / "var/lib/powertrain").write_text("a file where the directory should be")


@pytest.mark.parametrize(
    ("cripple", "message"),
    [
        (without_memory_lock, "is debugfs mounted?"),
        (without_sensor, "power budgets can't be kept on this board"),
        (unknown_to_the_catalogue, '"module": "NVIDIA Jetson AGX Orin Developer Kit"'),
        (full_disk, '"event": "ready"'),
    ],
)
def test_a_board_that_lacks_something_starts_says_so_and_is_not_written_to(
    board: BoardFactory, cripple: Callable[[SimulatedBoard], None], message: str
) -> None:
    simulated = board()
    cripple(simulated)
    before = simulated.sysfs.state()
    stop, lines = threading.Event(), io.StringIO()
    stop.set()
    serve(parser().parse_args(["--simulate", "orin-agx", "--host-root", str(simulated.root)]), Log(lines), stop)
    assert message in lines.getvalue()
    assert '"event": "stopped"' in lines.getvalue()
    assert simulated.sysfs.state() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--simulate", "orin-agx"], "name an empty directory with --host-root"),
        (["--simulate", "orin-agx", "--host-root", "{root}", "--time-scale", "0"], "must be above 0, not 0"),
        (["--host-root", "{root}", "--time-scale", "2"], "needs --simulate"),
        (["--simulate", "nano", "--host-root", "{root}"], "holds a simulated orin-agx, not nano"),
        (["--simulate", "nano", "--host-root", "/dev/null/board"], "can't be made in /dev/null/board: Not a directory"),
        (["--power-watts", "20"], "together with --standalone"),
        (["--standalone", "--power-watts", "0"], "give watts above 0"),
    ],
)
def test_options_that_can_not_work_together_say_which_would(
    board: BoardFactory, arguments: list[str], message: str
) -> None:
    root = str(board("orin-agx").root)
    options = parser().parse_args([argument.format(root=root) for argument in arguments])
    with pytest.raises(SetupError, match=message):
        serve(options, Log(io.StringIO()), threading.Event())


def test_a_second_agent_on_one_board_is_refused_until_the_first_has_ended(board: BoardFactory) -> None:
    options = parser().parse_args(["--simulate", "orin-agx", "--host-root", str(board("orin-agx").root)])
    first, stop = open_runtime(options, Log(io.StringIO())), threading.Event()
    with pytest.raises(SetupError, match=r"another agent holds .*var/lib/powertrain"):
        serve(options, Log(io.StringIO()), stop)
    stop.set()
    first.run(stop)
    lines = io.StringIO()
    serve(options, Log(lines), stop)
    assert '"event": "stopped"' in lines.getvalue()


def test_an_unknown_board_ends_with_the_known_ones(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["--simulate", "pi", "--host-root", str(tmp_path)])
    assert ended.value.code == 2
    assert "unknown device 'pi'; known: nano, orin-agx" in capsys.readouterr().err


def test_the_process_simulates_a_board_and_ends_on_sigterm(host_dir: Path) -> None:
    command = [sys.executable, "-m", "powertrain_agent.main", "--simulate", "orin-nano", "--host-root", str(host_dir)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    events = []
    for line in process.stderr:
        events.append(json.loads(line))
        if events[-1]["event"] == "ready":
            break
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=20)
    assert process.returncode == 0
    assert json.loads(rest.splitlines()[-1])["event"] == "stopped"
    writable = {event["knob"] for event in events if event["event"] == "capability" and event["access"] == "writable"}
    assert writable == {"cores", "cpu", "gpu", "emc", "fan"}
    assert events[0]["module"] == "p3767-0005"


def test_an_agent_alone_with_a_limit_sets_a_safe_mode_and_the_next_one_restores(host_dir: Path) -> None:
    root = ["--simulate", "orin-agx", "--host-root", str(host_dir)]
    command = [sys.executable, "-m", "powertrain_agent.main", "--standalone", *root]
    with subprocess.Popen([*command, "--power-watts", "20"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        gate_line = next(line for line in process.stderr if "the gate is open" in line)
        process.terminate()
        process.communicate(timeout=20)
    assert json.loads(gate_line)["session"] == "standalone"
    held_mode = SimulatedBoard.open(host_dir).mode()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        events = (json.loads(line) for line in process.stderr)
        restored = next(event for event in events if event["event"] == "restore")
        process.terminate()
        process.communicate(timeout=20)
    assert "problems" not in restored
    assert SimulatedBoard.open(host_dir).mode() != held_mode
    assert not (host_dir / "var/lib/powertrain" / SESSION).exists()
