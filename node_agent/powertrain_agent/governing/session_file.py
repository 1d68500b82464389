"""The session on the disk: the one reader and the one writer of what survives a restart."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from powertrain import PowerMode
from powertrain.api.conditions import ConditionStatus, find
from powertrain.api.v1alpha1 import Condition, Phase, Reason, SessionSpec
from powertrain.session.storage import report_from_dict, report_to_dict
from powertrain_agent.board_restorer import SESSION
from powertrain_agent.control.state_dir import StateDir
from powertrain_agent.governing.record import SessionRecord
from powertrain_agent.governing.usable import problem_of
from powertrain_agent.planning.front import Point
from powertrain_agent.process import Process
from powertrain_agent.steps import MAX_ACCURACY, MAX_NUMBER

PROFILE = "profile.json"
VERSION = 1
SESSION_BYTES, PROFILE_BYTES = 128 * 1024, 256 * 1024  # more than the largest envelope, more than the largest profile


class SessionFiles:
    """Two files: a small one that says who holds the board, and the profile so far."""

    def __init__(self, directory: Path) -> None:
        self._directory = StateDir(directory)

    def save(self, record: SessionRecord) -> None:
        """Write both, the profile first: a session that names a profile finds it."""
        self._write(PROFILE, _profile(record), PROFILE_BYTES)
        spec = record.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        process = record.process.as_dict() if record.process else None
        holder = {"uid": record.spec.uid, "podUIDs": list(record.spec.pod_uids), "process": process, "spec": spec}
        self._write(SESSION, holder, SESSION_BYTES)

    def load(self) -> SessionRecord | None:
        """Return the session that an earlier run left, None where there is none that can be read.

        A profile that can't be read is left out: the session starts again in its safe mode, and is guarded.
        """
        try:
            record = self._session()
        except UNREADABLE:
            return None  # the board's mode is held as long as the session file can't be read
        if record is None:
            return None
        try:
            return self._with_profile(SessionRecord(record.spec, process=record.process))
        except UNREADABLE:
            return record

    def _session(self) -> SessionRecord | None:
        holder = _read(self._directory.read(SESSION))
        if holder is None or "spec" not in holder:
            return None
        process = holder.get("process")
        held_by = None if process is None else Process.from_dict(process)
        spec = SessionSpec.model_validate(holder["spec"])
        return None if problem_of(spec) else SessionRecord(spec, process=held_by)

    def _with_profile(self, record: SessionRecord) -> SessionRecord:
        profile = _read(self._directory.read(PROFILE))
        if profile is not None and profile.get("version") == VERSION and profile.get("uid") == record.spec.uid:
            _fill(record, profile)
        return record

    def remove(self) -> None:
        """Forget the session."""
        self._directory.remove(SESSION, PROFILE)

    def _write(self, name: str, value: dict[str, Any], reserve_bytes: int) -> None:
        self._directory.replace(name, json.dumps(value, allow_nan=False).encode(), reserve_bytes=reserve_bytes)


# Whatever the bytes of a damaged or a hostile file lead to.
UNREADABLE = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, RecursionError)


def _read(data: bytes | None) -> dict[str, Any] | None:
    """Return the object in a file; numbers that are none (NaN, infinities) make it unreadable."""

    def refuse(text: str) -> None:
        raise ValueError(f"{text} is not a number")

    content = json.loads(data or b"null", parse_constant=refuse)
    if content is not None and not isinstance(content, dict):
        raise ValueError("the file does not hold a JSON object")
    return content


_PLAIN = ("boot_id", "message", "gate_open", "verified", "strategy", "reference", "planned", "extra", "checks")
_POINTS = ("chosen", "lowered_from")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_NUMBER


def _is_amount(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


def _is_accuracy(value: object) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) <= MAX_ACCURACY)  # type: ignore[arg-type]


# Figures that are only told. One that makes no sense is forgotten, and costs the session nothing else.
_FIGURES: dict[str, Callable[[object], bool]] = {
    "profiling_s": _is_amount,
    "steps": _is_count,
    "epochs": lambda value: value is None or _is_count(value),
    "accuracy": _is_accuracy,
    "energy_j": _is_amount,
    "violations": _is_count,
    "error": lambda value: value is None or isinstance(value, str),
}
# Files of the release before do not have these.
_LATER: dict[str, Any] = {"reference_version": None, "validation": None, "corrections": 0}
_FROM_CONDITIONS = {"is_blind": "PowerSensor", "lacks_steps": "StepSignal"}


def _profile(record: SessionRecord) -> dict[str, Any]:
    return {
        "version": VERSION,
        "uid": record.spec.uid,
        **{name: getattr(record, name) for name in (*_PLAIN, *_FIGURES, *_LATER, *_FROM_CONDITIONS)},
        "phase": record.phase.value,
        "reason": record.reason.value,
        **{name: _text(getattr(record, name)) for name in ("start", "mode", "runner_up")},
        **{name: point.as_dict() if (point := getattr(record, name)) else None for name in _POINTS},
        "reports": [report_to_dict(report) for report in record.reports],
        "fresh": sorted(map(str, record.fresh)),
        "confirmed": {str(mode): limit_w for mode, limit_w in record.confirmed.items()},
        "points": [point.as_dict() for point in record.points],
        "conditions": [c.model_dump(mode="json", by_alias=True) for c in record.conditions],
    }


def _fill(record: SessionRecord, raw: dict[str, Any]) -> None:
    for name in _PLAIN:
        setattr(record, name, raw[name])
    for name, makes_sense in _FIGURES.items():
        if makes_sense(raw[name]):
            setattr(record, name, raw[name])
    for name, otherwise in _LATER.items():
        setattr(record, name, raw.get(name, otherwise))
    record.phase, record.reason = Phase(raw["phase"]), Reason(raw["reason"])
    for name in ("start", "mode", "runner_up"):
        setattr(record, name, PowerMode.parse(raw[name]) if raw[name] else None)
    for name in _POINTS:
        setattr(record, name, Point.from_dict(raw[name]) if raw.get(name) else None)
    record.reports = [report_from_dict(report) for report in raw["reports"]]
    record.fresh = {PowerMode.parse(text) for text in raw["fresh"]}
    record.confirmed = {PowerMode.parse(text): float(watts) for text, watts in raw.get("confirmed", {}).items()}
    record.points = [Point.from_dict(point) for point in raw["points"]]
    record.conditions = tuple(Condition.model_validate(condition) for condition in raw["conditions"])
    for name, condition in _FROM_CONDITIONS.items():
        noted_condition = find(record.conditions, condition)
        setattr(
            record,
            name,
            bool(raw.get(name, noted_condition is not None and noted_condition.status is ConditionStatus.FALSE)),
        )


def _text(mode: PowerMode | None) -> str | None:
    return None if mode is None else str(mode)
