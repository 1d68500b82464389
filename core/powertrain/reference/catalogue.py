"""Which references there are, and which one is closest to what a board measures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from powertrain.profiling.history import History
from powertrain.reference.card import CARD_FILE, ReferenceError
from powertrain.reference.reference import Reference, load

SHIPPED_NAME = "orin-agx-resnet18"
# Stands for the shipped reference in a list of folders.
SHIPPED = "shipped"
# A shape can't be told from fewer samples once its level is taken out.
FEWEST_SAMPLES = 3


@dataclass(frozen=True)
class Available:
    """The references that can be used, in the order of their sources, and what is wrong with those that can't."""

    references: tuple[Reference, ...]
    problems: tuple[str, ...]


def shipped() -> Reference:
    """Return the reference inside this package: ResNet-18 on Orin AGX."""
    return load(Path(__file__).parent / "shipped" / SHIPPED_NAME)


def available(sources: Iterable[str | Path] = (SHIPPED,)) -> Available:
    """Return the references of these sources: `SHIPPED`, or a folder that is a reference itself or holds some.

    A damaged reference is named in `problems` and does not hide the others.
    """
    references: list[Reference] = []
    problems: list[str] = []
    for source in sources:
        if source == SHIPPED:
            references.append(shipped())
            continue
        folder = Path(source)
        single = (folder / CARD_FILE).exists()
        candidates = [folder] if single else sorted(card.parent for card in folder.glob(f"*/{CARD_FILE}"))
        if not candidates:
            problems.append(f"{folder}: no reference in it (a folder with {CARD_FILE})")
        for candidate in candidates:
            try:
                reference = load(candidate)
                _ = reference.physics  # reading the arrays is the only proof that they are whole
                references.append(reference)
            except ReferenceError as error:
                problems.append(str(error))
    return Available(tuple(references), tuple(problems))


def closest(
    references: Sequence[Reference], device: str | None, history: History | None = None, with_network: bool = False
) -> Reference:
    """Return the reference to start from.

    0. For a strategy that fine-tunes networks (`with_network`), the references that have some, if there are any.
    1. References of the same device, if there are any; otherwise all.
    2. Of those, the one whose physics explains best what was measured so far: least root mean square of the log
       residuals of time and power, each after taking out its median (another workload is faster or slower as a whole).
    3. On a tie, and before enough was measured, the first by name.
    """
    if not references:
        raise ReferenceError("no reference to choose from; the package ships one: powertrain.reference.shipped()")
    if with_network:
        references = [reference for reference in references if reference.has_network] or references
    same = [reference for reference in references if device is not None and reference.card.device == device]
    return min(same or references, key=lambda reference: (misfit(reference, history), reference.card.name))


def misfit(reference: Reference, history: History | None) -> float:
    """Return how badly a reference's physics explains the samples (0: perfectly, or too few to tell)."""
    if history is None or len(history.modes) < FEWEST_SAMPLES:
        return 0.0
    expected = reference.physics.evaluate(history.modes)
    residuals = [np.log(history.step_s) - expected.log_time, np.log(history.power_w) - expected.log_power]
    centred = np.concatenate([residual - np.median(residual) for residual in residuals])
    return float(np.sqrt(np.mean(centred**2)))
