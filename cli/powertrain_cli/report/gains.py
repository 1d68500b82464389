"""What was gained: the chosen mode against NVIDIA's presets, MAXN and the runner-up, measured or predicted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from powertrain import devices
from powertrain.devices import Device, Preset
from powertrain.modes import PowerMode
from powertrain.objectives import Work
from powertrain.profiling import Problem
from powertrain.profiling.history import History, ModeReport
from powertrain.reference import available, closest
from powertrain.samples import Sample
from powertrain.session import ProfilingSession
from powertrain.strategies.base import HasBelief
from powertrain_cli.report.document import Basis, Comparison, Point

# What a median of forty steps is worth.
NOISE = 0.01
FEWEST_SAMPLES = 3
MAXN = "MAXN"


def preset_points(device_name: str, samples: Sequence[Sample]) -> list[tuple[Preset, Point]]:
    """Return NVIDIA's presets of a board with their time and power, by the model of these samples.

    Nothing where the catalogue does not hold the board or too little was measured to predict anything.
    """
    usable = [sample for sample in samples if not sample.unsafe]
    if device_name not in devices.names() or len(usable) < FEWEST_SAMPLES:
        return []
    device = devices.get(device_name)
    modes = [device.preset_mode(preset) for preset in device.presets]
    by_mode = {point.mode: point for point in _points(device, usable, modes)}
    presets = zip(device.presets, modes, strict=True)
    return [(preset, by_mode[str(mode)]) for preset, mode in presets if str(mode) in by_mode]


def _points(device: Device, samples: Sequence[Sample], modes: Sequence[PowerMode]) -> list[Point]:
    space = device.space()
    problem = Problem(space, noise=NOISE, device=device.name, work=Work(batch_size=samples[0].batch_size))
    session = ProfilingSession(problem, "transfer")
    reports = [ModeReport(sample.mode, None, sample) for sample in samples if sample.mode in space]
    session.history = History.of(space, reports, NOISE)
    session.reference = closest(available().references, device.name, session.history)
    assert isinstance(session.strategy, HasBelief)
    posterior = session.strategy.belief.posterior(session.history)
    measured = {sample.mode for sample in samples}
    rows = [space.index(mode) for mode in modes]
    return [
        Point(
            mode=str(mode),
            human=mode.human,
            step_s=float(posterior.time_s[row]),
            step_pm_s=float(2 * posterior.time_std_s[row]),
            power_w=float(posterior.power_w[row]),
            power_pm_w=float(2 * posterior.power_std_w[row]),
            basis=Basis.MEASURED if mode in measured else Basis.PREDICTED,
        )
        for mode, row in zip(modes, rows, strict=True)
        if np.isfinite(posterior.time_s[row]) and np.isfinite(posterior.power_w[row])
    ]


def compare(chosen: Point, name: str, other: Point, limit_w: float | None) -> Comparison:
    """Return the chosen mode against another one."""
    own_j, other_j = chosen.step_s * chosen.power_w, other.step_s * other.power_w
    return Comparison(
        name=name,
        point=other,
        energy_per_step_j=other_j,
        speed_ratio=other.step_s / chosen.step_s,
        energy_ratio=own_j / other_j,
        keeps_limit=None if limit_w is None else other.power_w <= limit_w,
    )


def label(preset: Preset) -> str:
    """Return a preset's name as people know it."""
    return preset.name if preset.watts is None else f"{preset.watts:g} W preset"


def times(ratio: float) -> str:
    """Return a ratio in words, near 1 with so many digits that no loss looks like a draw."""
    return f"{ratio:.2f}×" if ratio < 1.95 else f"{ratio:.1f}×"


def fitting(presets: Sequence[tuple[Preset, Point]], limit_w: float | None) -> tuple[Preset, Point] | None:
    """Return the preset that somebody with this limit would set: the highest label within it."""
    within = [each for each in presets if each[0].watts is not None and (limit_w is None or each[0].watts <= limit_w)]
    return max(within, key=lambda each: each[0].watts or 0.0, default=None)


def sentence(chosen: Point, presets: Sequence[tuple[Preset, Point]], limit_w: float | None) -> str:
    """Return in words what the chosen mode gains; empty where there is nothing to compare with."""
    parts = []
    best = fitting(presets, limit_w)
    if best is not None:
        preset, point = best
        parts.append(f"{times(point.step_s / chosen.step_s)} as fast as NVIDIA's {label(preset)} ({point.basis.value})")
    maxn = next((point for preset, point in presets if preset.name == MAXN), None)
    if maxn is not None:
        share = 100 * maxn.step_s / chosen.step_s
        saved = f"{share:.0f} % of the speed of MAXN at {chosen.power_w:.0f} instead of {maxn.power_w:.0f} W"
        parts.append(f"{saved} ({maxn.basis.value})")
    return "; ".join(parts)
