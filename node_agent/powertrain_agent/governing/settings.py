"""The session's own numbers, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from powertrain_agent.governing.measurement_window import WindowRules
from powertrain_agent.planning.messages import SHIPPED_ONLY


@dataclass(frozen=True)
class SessionSettings:
    """How long to wait and how much to try."""

    period_s: float = 0.1  # of the sensor
    rules: WindowRules = field(default_factory=WindowRules)
    no_steps_s: float = 300.0  # longer than a container takes to start its first step
    sensor_lost_s: float = 2.0  # twenty readings
    checks: int = 2  # in-flight checks after a choice: more found nothing in the study
    check_after_s: float = 15.0  # the chosen mode first shows that it keeps the budget
    extension_modes: int = 6  # what a raised budget is worth
    confirmations: int = 5  # predicted choices in a row that may fail before a measured one is taken
    warm_noise: float = 0.05  # samples of a similar profile teach, but weakly
    exact_band: float = 0.05  # a profile whose chosen mode is off by more is only a warm start
    retry_s: float = 10.0
    references: tuple[str, ...] = SHIPPED_ONLY  # folders among which the closest reference is picked
    save_s: float = 30.0  # counters that a killed agent may lose
