"""Fixtures of the agent's scenarios: a board with its agent in virtual time."""

from __future__ import annotations

from tests.unit.agent.scenarios.conftest import memory_dir, new_scenario, profiled, running

__all__ = ["memory_dir", "new_scenario", "profiled", "running"]
