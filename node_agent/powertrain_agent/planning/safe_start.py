"""The safe start mode: the least power by the reference alone. It needs no fit, so the agent computes it itself."""

from __future__ import annotations

from collections.abc import Sequence

from powertrain import ModeSpace, PowerMode
from powertrain.modes import KNOBS
from powertrain.profiling.history import History, ModeReport
from powertrain_agent.planning.messages import SHIPPED_ONLY


def safe_start(
    space: ModeSpace,
    device: str | None,
    reports: Sequence[ModeReport] = (),
    references: Sequence[str] = SHIPPED_ONLY,
) -> PowerMode:
    """Return the mode in which a training starts; what a profile knows of it finds the closest reference."""
    # Loaded when a session starts: an idle agent does without them.
    from powertrain.physics.design import low_power_anchor
    from powertrain.reference import available, closest

    reference = closest(available(references).references, device, History.of(space, reports))
    return space[low_power_anchor(reference.physics, space.matrix)]


def reference_w(mode: PowerMode, device: str | None, references: Sequence[str] = SHIPPED_ONLY) -> float | None:
    """Return what this board's own reference takes in a mode; None where only other boards' references are known."""
    import numpy as np

    from powertrain.reference import available

    references_here = available(references).references
    own = [reference for reference in references_here if device is not None and reference.card.device == device]
    row = np.array([[getattr(mode, knob) for knob in KNOBS]], dtype=float)
    return min((float(np.exp(reference.physics.evaluate(row).log_power[0])) for reference in own), default=None)
