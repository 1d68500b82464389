"""What survives a restart: the session beside the snapshot; an agent goes on without repeating a measured mode."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from powertrain import PowerMode
from powertrain.api.v1alpha1 import Condition, Phase, Reason, SessionSpec
from powertrain.profiling.history import Told
from powertrain.samples import Sample
from powertrain_agent.control.snapshot import StateDir
from powertrain_agent.governor.front import Point
from powertrain_agent.governor.usable import problem_of
from powertrain_agent.keeper import SESSION
from powertrain_agent.process import Process

PROFILE = "profile.json"
VERSION = 1


@dataclass
class SessionState:
    """Everything that is known of the session that the agent serves."""

    spec: SessionSpec
    boot_id: str = ""
    process: Process | None = None  # of a training without a pod
    phase: Phase = Phase.STARTING
    reason: Reason = Reason.START
    message: str = ""
    gate_open: bool = False
    verified: bool = False
    start: PowerMode | None = None
    mode: PowerMode | None = None
    chosen: Point | None = None
    lowered_from: Point | None = None  # what was chosen before the guard lowered the mode
    runner_up: PowerMode | None = None
    reports: list[Told] = field(default_factory=list)
    fresh: set[PowerMode] = field(default_factory=set)  # measured in this session, not taken from a profile
    points: list[Point] = field(default_factory=list)
    strategy: str = "transfer"
    reference: str | None = None
    reference_version: str | None = None
    validation: list[float] | None = None  # errors of time and power in percent, by the strategy's own validation
    planned: int | None = None
    extra: int = 0
    checks: int = 0
    corrections: int = 0
    profiling_s: float = 0.0
    steps: int = 0
    epochs: int | None = None
    accuracy: float | None = None
    energy_j: float = 0.0
    violations: int = 0
    conditions: tuple[Condition, ...] = ()
    error: str | None = None
    restored: bool = False

    @property
    def samples(self) -> list[Sample]:
        """Return what was measured, unsafe samples included."""
        return [told.sample for told in self.reports if told.sample is not None]

    @property
    def measured(self) -> int:
        """Return how many modes this session measured itself."""
        return len(self.fresh)

    def left_above(self, limit_w: float) -> list[PowerMode]:
        """Return the modes that were left because of a reading above this limit, and not measured within it since."""
        latest = {told.mode: told.sample for told in self.reports if told.sample is not None}
        return [
            mode
            for mode, sample in latest.items()
            if sample.unsafe and max(sample.power_w, sample.power_peak_w or 0.0) > limit_w
        ]

    def measured_points(self) -> list[Point]:
        """Return the measured points, the latest of each mode, without those that were left as unsafe."""
        return [Point.of(told.sample, told.noise or 0.0) for told in self._latest() if told.sample is not None]

    def proven_points(self) -> list[Point]:
        """Return the measured points that hold here: of this session, or of an exact profile that was not found wrong.

        A warm profile's samples were measured on another board or job: they teach, but no mode is safe by them.
        """
        return [
            Point.of(told.sample, told.noise or 0.0)
            for told in self._latest()
            if told.sample is not None and (told.mode in self.fresh or told.noise is None)
        ]

    def _latest(self) -> list[Told]:
        latest = {told.mode: told for told in self.reports if told.usable}
        return [told for told in latest.values() if told.sample is not None and not told.sample.unsafe]


class SessionFiles:
    """Two files: a small one that says who holds the board, and the profile so far."""

    def __init__(self, directory: Path) -> None:
        self._directory = StateDir(directory)

    def save(self, state: SessionState) -> None:
        """Write both, the profile first: a session that names a profile finds it."""
        self._write(PROFILE, _profile(state))
        spec = state.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        process = state.process.as_dict() if state.process else None
        holder = {"uid": state.spec.uid, "podUIDs": list(state.spec.pod_uids), "process": process, "spec": spec}
        self._write(SESSION, holder)

    def load(self) -> SessionState | None:
        """Return the session that an earlier run left, None where there is none that can be read."""
        try:
            holder = json.loads(self._directory.read(SESSION) or b"null")
            if holder is None or "spec" not in holder:
                return None
            process = holder.get("process")
            held_by = None if process is None else Process.from_dict(process)
            spec = SessionSpec.model_validate(holder["spec"])
            if problem_of(spec):
                return None
            state = SessionState(spec, process=held_by)
            profile = json.loads(self._directory.read(PROFILE) or b"null")
            if profile is not None and profile.get("version") == VERSION and profile.get("uid") == state.spec.uid:
                _fill(state, profile)
        except (OSError, ValueError, KeyError, TypeError):
            # The keeper holds the board's mode as long as the session file can't be read.
            return None
        return state

    def remove(self) -> None:
        """Forget the session."""
        for name in (SESSION, PROFILE):
            (self._directory.path / name).unlink(missing_ok=True)

    def _write(self, name: str, value: dict[str, Any]) -> None:
        self._directory.replace(name, json.dumps(value).encode())


_PLAIN = ("boot_id", "message", "gate_open", "verified", "strategy", "reference", "planned", "extra", "checks")
_FIGURES = ("profiling_s", "steps", "epochs", "accuracy", "energy_j", "violations", "error")
_POINTS = ("chosen", "lowered_from")
# Files of the release before do not have these.
_LATER: dict[str, Any] = {"reference_version": None, "validation": None, "corrections": 0}


def _profile(state: SessionState) -> dict[str, Any]:
    return {
        "version": VERSION,
        "uid": state.spec.uid,
        **{name: getattr(state, name) for name in (*_PLAIN, *_FIGURES, *_LATER)},
        "phase": state.phase.value,
        "reason": state.reason.value,
        **{name: _text(getattr(state, name)) for name in ("start", "mode", "runner_up")},
        **{name: point.as_dict() if (point := getattr(state, name)) else None for name in _POINTS},
        "reports": [told_as_dict(told) for told in state.reports],
        "fresh": sorted(map(str, state.fresh)),
        "points": [point.as_dict() for point in state.points],
        "conditions": [c.model_dump(mode="json", by_alias=True) for c in state.conditions],
    }


def _fill(state: SessionState, raw: dict[str, Any]) -> None:
    for name in (*_PLAIN, *_FIGURES):
        setattr(state, name, raw[name])
    for name, otherwise in _LATER.items():
        setattr(state, name, raw.get(name, otherwise))
    state.phase, state.reason = Phase(raw["phase"]), Reason(raw["reason"])
    for name in ("start", "mode", "runner_up"):
        setattr(state, name, PowerMode.parse(raw[name]) if raw[name] else None)
    for name in _POINTS:
        setattr(state, name, Point.from_dict(raw[name]) if raw.get(name) else None)
    state.reports = [told_from_dict(told) for told in raw["reports"]]
    state.fresh = {PowerMode.parse(text) for text in raw["fresh"]}
    state.points = [Point.from_dict(point) for point in raw["points"]]
    state.conditions = tuple(Condition.model_validate(condition) for condition in raw["conditions"])


def told_as_dict(told: Told) -> dict[str, Any]:
    """Return a report as JSON-ready values."""
    sample = told.sample
    values = {name: getattr(sample, name) for name in Sample.__slots__ if name != "mode"} if sample else None
    return {
        "mode": str(told.mode),
        "asked": _text(told.asked),
        "sample": values,
        "noise": told.noise,
        "failure": told.failure,
    }


def told_from_dict(raw: dict[str, Any]) -> Told:
    """Return the report that `told_as_dict` wrote."""
    mode = PowerMode.parse(raw["mode"])
    sample = Sample(mode=mode, **raw["sample"]) if raw["sample"] else None
    asked = PowerMode.parse(raw["asked"]) if raw["asked"] else None
    return Told(mode, asked, sample, raw["noise"], raw["failure"])


def _text(mode: PowerMode | None) -> str | None:
    return None if mode is None else str(mode)
