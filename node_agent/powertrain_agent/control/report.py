"""BoardReport: what an action on the board did, for whoever has to tell it."""

from __future__ import annotations

from dataclasses import dataclass

from powertrain import PowerMode
from powertrain_agent.control.foreign_changes import Foreign
from powertrain_agent.control.move import Problem


@dataclass(frozen=True)
class BoardReport:
    """What an action did: the mode that holds now, what is wrong, was corrected, and was changed by others."""

    mode: PowerMode | None = None
    problems: tuple[Problem, ...] = ()
    corrected: tuple[Problem, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Say whether every attribute shows what it should."""
        return not self.problems
