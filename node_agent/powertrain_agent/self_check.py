"""The agent's self-check: what `doctor --read-only` finds, short enough for a PowerNode's status. It writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from powertrain.api.v1alpha1 import KnobCheck, SelfCheck, moment
from powertrain_agent.doctor import KnobReport, run_doctor
from powertrain_agent.sysfs import Sysfs

MOST_TEXT, MOST_HINTS = 512, 8
_NOT_TRIED = "not tried"  # nothing is tried here, so that is no reason


def self_check(sysfs: Sysfs, state_dir: Path, now: Callable[[], datetime]) -> SelfCheck:
    """Examine the board without a write: knob by knob whether it can be used, and why not."""
    report = run_doctor(sysfs, read_only=True, state_dir=state_dir / "doctor")
    return SelfCheck(
        at=moment(now()),
        works=report.healthy,
        verdict=report.verdict[:MOST_TEXT],
        mount_family=report.mount_family,
        knobs=tuple(map(_knob, report.knobs)),
        hints=tuple(hint[:MOST_TEXT] for hint in report.hints[:MOST_HINTS]),
    )


def _knob(report: KnobReport) -> KnobCheck:
    reason = "" if report.reason.startswith(_NOT_TRIED) else report.reason
    return KnobCheck(
        knob=report.knob,
        usable=report.healthy,
        shows=report.value[:253],
        reason=reason[:MOST_TEXT],
        fix=report.fix[:MOST_TEXT],
    )
