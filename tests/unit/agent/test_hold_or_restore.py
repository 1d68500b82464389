"""When to restore, when to hold: every row of the table in docs/invariants.md, and no case that the table forgets."""

import re
from itertools import product
from pathlib import Path

import pytest

from powertrain_agent.control.cgroups import PodCgroup
from powertrain_agent.control.hold_or_restore import API_AWAY_S, GRACE_S, Action, Facts, decide

PAGE = Path(__file__).parents[3] / "docs" / "invariants.md"
COLUMNS = {
    "pod's cgroup": {
        "present": (PodCgroup.PRESENT, 0.0),
        "unreadable": (PodCgroup.UNREADABLE, 0.0),
        "absent < 10 s": (PodCgroup.ABSENT, GRACE_S - 0.1),
        "absent ≥ 10 s": (PodCgroup.ABSENT, GRACE_S),
    },
    "API server": {"reachable": 0.0, "away < 10 min": API_AWAY_S - 0.1, "away ≥ 10 min": API_AWAY_S},
    "PowerNode": {"present": False, "gone": True},
    "release": {"not seen": False, "seen": True},
    "other life": {"none": False, "seen": True},
    "site's limit": {"none": False, "some": True},
}


def _rows() -> list[tuple[str, ...]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| H\d+ ", line)]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


ROWS = _rows()


def _cases(row: tuple[str, ...]) -> list[tuple[str, ...]]:
    cells = row[1:7]
    return list(
        product(
            *(list(values) if cell == "any" else [cell] for cell, values in zip(cells, COLUMNS.values(), strict=True))
        )
    )


def _facts(case: tuple[str, ...]) -> Facts:
    cgroup, api, node, release, life, site = (values[cell] for cell, values in zip(case, COLUMNS.values(), strict=True))
    return Facts(cgroup[0], cgroup[1], api, node, release, life, site)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_row_of_the_restore_table(row: tuple[str, ...]) -> None:
    for case in _cases(row):
        assert decide(_facts(case)).action == Action(row[7]), case


def test_the_table_covers_every_combination_once() -> None:
    covered = [case for row in ROWS for case in _cases(row)]
    assert sorted(covered) == sorted(product(*COLUMNS.values()))


def test_every_decision_has_a_reason() -> None:
    for case in product(*COLUMNS.values()):
        assert decide(_facts(case)).reason
