"""`auto`: which strategy fits a workload, after the first paper's Table 1, with the reason in words."""

from __future__ import annotations

from dataclasses import dataclass

from powertrain.workload import Changes, Recurrence

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
# Table 1: brute force takes 1,200–1,800 minutes on a full board; it pays only where the training is longer than that.
BRUTE_FORCE_PAYS_S = 2 * DAY_S
# Table 1: a network of its own takes 20–50 minutes of profiling; it pays for trainings of hours.
NETWORK_PAYS_S = HOUR_S
TRANSFER_MODES, NETWORK_MODES, RECHECK_MODES = 20, 100, 3


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A strategy, how many modes to profile (None: all), and why."""

    strategy: str
    max_modes: int | None
    reason: str


def recommend(
    recurrence: Recurrence,
    changes: Changes,
    expected_s: float | None,
    has_profile: bool = False,
    has_torch: bool = True,
) -> Recommendation:
    """Choose a strategy. `expected_s` is epochs × predicted epoch time, None where nobody knows."""
    if has_profile:
        return Recommendation(
            "transfer",
            RECHECK_MODES,
            "a profile of this workload on this board exists: it is reused after a short check",
        )
    if expected_s is None:
        return Recommendation(
            "transfer", TRANSFER_MODES, "the duration is not known (federated or shared board): few modes, learnt fast"
        )
    long = f"expected to take {_human(expected_s)}"
    if recurrence is Recurrence.ONCE and changes is Changes.NEVER and expected_s >= BRUTE_FORCE_PAYS_S:
        return Recommendation("brute-force", None, f"trained once, {long}: measuring every mode (about a day) pays")
    seldom = recurrence in (Recurrence.ONCE, Recurrence.OCCASIONAL) and changes is not Changes.OFTEN
    if seldom and expected_s >= NETWORK_PAYS_S:
        if has_torch:
            return Recommendation(
                "nn",
                NETWORK_MODES,
                f"fine-tuning that seldom changes, {long}: a network of its own on {NETWORK_MODES} modes pays",
            )
        return Recommendation(
            "transfer", TRANSFER_MODES, f"{long}; Table 1 names a network of its own, but torch is not installed here"
        )
    return Recommendation(
        "transfer", TRANSFER_MODES, f"{long}, comes back {recurrence.value.lower()}: profiling must be short"
    )


def _human(seconds: float) -> str:
    if seconds >= DAY_S:
        return f"{seconds / DAY_S:.1f} days"
    return f"{seconds / HOUR_S:.1f} h" if seconds >= HOUR_S else f"{seconds / 60:.0f} min"
