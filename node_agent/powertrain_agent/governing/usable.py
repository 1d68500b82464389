"""Usable: can the loop work with an envelope's values? What no schema can say, asked before a session begins."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from powertrain.api.v1alpha1 import SessionSpec
from powertrain_agent.governing.schedule import budget_at
from powertrain_agent.session_dir import SessionDir

_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def problem_of(spec: SessionSpec) -> str:
    """Return which value makes no sense and what would; empty where all do."""
    try:
        SessionDir(Path(), spec.uid)
        budget_at(spec, _SOME_DAY)
        if spec.prior is not None:
            for columns in (spec.prior.samples, *spec.prior.others):
                columns.samples()
                columns.early.samples()
    except (ValueError, IndexError) as error:
        return str(error)
    return ""
