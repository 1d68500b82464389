"""Whoever dies and whatever is late or lost: the boards of a budget together never take more than the cap."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from .world import World

SECONDS = 70.0
# The mean of a window is compared with the cap to this precision.
ROUNDING = 1.0 + 1e-6


def run(world: World, seconds: float) -> None:
    while world.now_s < seconds:
        world.tick()
        mean_w = world.mean_w()
        assert mean_w is None or mean_w <= world.allowed_w * ROUNDING, f"{mean_w} W at {world.now_s} s"


@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**63))
def test_a_fall_of_the_schedule_holds_without_the_api_server(seed: int) -> None:
    """The operator and every agent are cut off long before the hour; no share is told after that."""
    world = World(seed)
    world.is_rough = world.is_fickle = False
    world.plan_fall(at_s=110.0, part=0.75)
    run(world, 40.0)
    world.isolate()
    run(world, 120.0)


# Jobs that had to wait stood on boards whose idle power was not kept for them.
@example(seed=1213)
@example(seed=1001481)
@settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**63))
def test_the_true_sum_over_every_window_is_never_above_the_cap(seed: int) -> None:
    run(World(seed), SECONDS)
