"""An example report: a session on a simulated Orin AGX within 22 W, computed by the board's own model."""

from __future__ import annotations

import math
from itertools import pairwise

from powertrain import devices
from powertrain.modes import PowerMode
from powertrain.samples import Sample
from powertrain_cli.report import gains
from powertrain_cli.report.document import (
    Basis,
    Board,
    BoardFacts,
    Fleet,
    FleetBoard,
    Makespan,
    Mark,
    MarkKind,
    Point,
    Report,
    Timeline,
    Trial,
)

LIMIT_W = 22.0
DEVICE = devices.get("orin-agx")
GPU, CPU = DEVICE.tables.gpu_hz.values, DEVICE.tables.cpu_khz.values
TRIED = (
    (4, 5, 1, 2),
    (6, 10, 3, 2),
    (8, 14, 4, 3),
    (8, 14, 6, 2),
    (10, 20, 5, 3),
    (8, 10, 7, 3),
    (6, 12, 6, 3),
    (6, 8, 7, 2),
    (4, 12, 7, 3),
)
CHOSEN, RUNNER_UP = 6, 3


def _mode(cores: int, cpu: int, gpu: int, emc: int) -> PowerMode:
    return PowerMode(cores, CPU[cpu], GPU[gpu], DEVICE.tables.emc_hz.values[emc])


def _step_s(mode: PowerMode) -> float:
    return 0.03 + 34e6 / mode.gpu_hz + 6e4 / mode.cpu_khz / math.sqrt(mode.cores)


def _power_w(mode: PowerMode) -> float:
    gpu, cpu, emc = mode.gpu_hz / 1e9, mode.cpu_khz / 1e6, mode.emc_hz / 1e9
    return 6 + 14 * gpu**1.7 + 0.45 * mode.cores * cpu**2 + 1.1 * emc


def samples() -> list[Sample]:
    return [Sample(mode, _step_s(mode), _power_w(mode)) for mode in (_mode(*knobs) for knobs in TRIED)]


def _point(mode: PowerMode, basis: Basis, wrong: float = 1.0) -> Point:
    step_s, power_w = _step_s(mode) * wrong, _power_w(mode) / wrong
    return Point(
        mode=str(mode),
        human=mode.human,
        step_s=step_s,
        power_w=power_w,
        basis=basis,
        step_pm_s=None if basis is Basis.MEASURED else 0.06 * step_s,
        power_pm_w=None if basis is Basis.MEASURED else 0.04 * power_w,
    )


def timeline(source: str = "the agent's history") -> Timeline:
    modes = [_mode(*knobs) for knobs in TRIED]
    visits = [(40.0 * place, mode) for place, mode in enumerate(modes)]
    visits += [(360.0, modes[CHOSEN]), (900.0, modes[RUNNER_UP]), (1200.0, modes[CHOSEN])]
    at_s = [5.0 * place for place in range(361)]
    mode_at = [[mode for begin_s, mode in visits if begin_s <= moment][-1] for moment in at_s]
    means = [_power_w(mode) + 0.25 * math.sin(moment / 7) for mode, moment in zip(mode_at, at_s, strict=True)]
    marks = [Mark(at_s=at, kind=MarkKind.TRIAL, text=f"tries {mode.human}") for at, mode in visits[: len(TRIED)]]
    marks += [
        Mark(at_s=360, kind=MarkKind.MODE, text=f"chose {modes[CHOSEN].human}: the fastest within 22 W"),
        Mark(at_s=900, kind=MarkKind.GUARD, text="22.3 W over 3 s is above 22 W: goes to the next safer mode"),
        Mark(at_s=1200, kind=MarkKind.MODE, text=f"back to {modes[CHOSEN].human}"),
        Mark(at_s=1500, kind=MarkKind.LIMIT, text="limit 25 W by the schedule"),
    ]
    return Timeline(
        source=source,
        began_at="2026-03-01T10:00:00Z",
        at_s=tuple(at_s),
        power_min_w=tuple(mean - 0.8 for mean in means),
        power_mean_w=tuple(means),
        power_max_w=tuple(mean + 1.1 for mean in means),
        step_s=tuple(None if moment < 10 else _step_s(mode) for mode, moment in zip(mode_at, at_s, strict=True)),
        limit_w=tuple(LIMIT_W if moment < 1500 else 25.0 for moment in at_s),
        mode=tuple(mode.human for mode in mode_at),
        marks=tuple(marks),
    )


def board(node: str = "orin-1") -> Board:
    modes = [_mode(*knobs) for knobs in TRIED]
    chosen, runner_up = _point(modes[CHOSEN], Basis.MEASURED), _point(modes[RUNNER_UP], Basis.MEASURED)
    presets = gains.preset_points("orin-agx", samples())
    compared = tuple(gains.compare(chosen, gains.label(preset), point, LIMIT_W) for preset, point in presets)
    ladder = [_mode(8, 14, gpu, 3) for gpu in range(len(GPU))]
    ladder = [mode for mode, following in pairwise([*ladder, ladder[-1]]) if mode != following] + [ladder[-1]]
    trials = tuple(
        Trial(
            point=_point(mode, Basis.MEASURED),
            reason="the lowest power, to start safely" if not place else "most likely to be faster within the limit",
            over_limit=_power_w(mode) > LIMIT_W,
            left_early=_power_w(mode) > LIMIT_W + 2,
        )
        for place, mode in enumerate(modes)
    )
    return Board(
        node=node,
        facts=BoardFacts(
            name="orin-agx",
            model="NVIDIA Jetson AGX Orin Developer Kit",
            module="p3701-0000",
            l4t="R35.1.0",
            core_policy="Fixed",
            total_rail="sum",
            agent="0.1.0",
        ),
        phase="Running",
        message=f"chose {chosen.human}: the fastest mode within 22 W",
        batch_size=16,
        limit_w=LIMIT_W,
        strategy="transfer",
        reference="orin-agx-resnet18",
        chosen=chosen,
        runner_up=runner_up,
        predicted=_point(modes[CHOSEN], Basis.PREDICTED, 1.02),
        observed=chosen,
        trials=trials,
        front=tuple(_point(mode, Basis.PREDICTED) for mode in ladder),
        comparisons=(*compared, gains.compare(chosen, "runner-up", runner_up, LIMIT_W)),
        profiling_s=360.0,
        energy_j=38_000.0,
        violations=1,
        timeline=timeline(),
    )


def report(name: str = "mobilenet-v3") -> Report:
    one = board()
    return Report(
        name=name,
        namespace="team-a",
        workload="mobilenet-v3",
        phase="Running",
        objective="MinTime",
        limits="22 W",
        summary="1.9× as fast as NVIDIA's 15 W preset (predicted); above 22 W in 1 guard window.",
        made_at="2026-03-01 10:31 UTC",
        versions={"powertrain": "0.1.0"},
        boards=(one,),
    )


def fleet_report() -> Report:
    nodes = ("orin-1", "orin-2", "orin-3")
    at_s = timeline().at_s
    boards = tuple(
        FleetBoard(
            node=node,
            power_w=tuple(power and power * (0.8 + 0.1 * place) for power in timeline().power_mean_w),
            share_w=tuple(20.0 + place if moment < 900 else 24.0 - place for moment in at_s),
        )
        for place, node in enumerate(nodes)
    )
    shared = Fleet(
        name="rack-1",
        at_s=at_s,
        cap_w=tuple(66.0 for _ in at_s),
        boards=boards,
        makespans=(
            Makespan(sharing="by the fronts", seconds=5200.0, basis=Basis.PREDICTED),
            Makespan(sharing="equal shares", seconds=6100.0, basis=Basis.PREDICTED),
        ),
    )
    many = tuple(board(node) for node in nodes)
    return report("three-boards").model_copy(update={"boards": many, "fleet": shared})
