"""What holds for every level: how work is shared, and that no example is judged by how fast the machine is."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

# Four and five boards each, which keep a core busy: they run one after the other.
FLEETS = ("test_operator_training_jobs.py", "test_operator_faults.py")
# What takes minutes is begun first, so that no process ends long before the other.
LONGEST = (*FLEETS, "test_examples.py", "test_demo.py", "test_kueue.py", "test_verbs.py", "test_batch_sizes.py")

# Both measure seconds of the wall, which other work on the machine takes; a test that hangs has pytest's own timeout.
settings.register_profile("powertrain", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# CI judges a change, so it draws the same examples each time; new ones are looked for everywhere else.
settings.register_profile("powertrain-ci", settings.get_profile("powertrain"), derandomize=True)
settings.load_profile("powertrain-ci" if os.environ.get("CI") else "powertrain")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


class FleetsInOneProcess(LoadScopeScheduling):
    """Keeps a file's tests in one process, and the large fleets in the same one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "fleets" if file.rpartition("/")[2] in FLEETS else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return FleetsInOneProcess(config, log) if config.getvalue("dist") == "loadfile" else None
