"""What is known of a session and survives a restart: an agent goes on without repeating a measured mode."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from powertrain import PowerMode
from powertrain.api.v1alpha1 import Condition, Phase, Reason, SessionSpec
from powertrain.profiling.history import ModeReport
from powertrain.samples import Sample
from powertrain_agent.planning.front import Point
from powertrain_agent.planning.messages import PlanAnswer
from powertrain_agent.process import Process


@dataclass
class SessionRecord:
    """Everything that is known of the session; `session_file.py` writes it to the disk."""

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
    reports: list[ModeReport] = field(default_factory=list)
    fresh: set[PowerMode] = field(default_factory=set)  # measured in this session, not taken from a profile
    # Under which limits modes were held and kept them, or were measured to be far enough below.
    confirmed: dict[PowerMode, float] = field(default_factory=dict)
    # Modes that a profile knows and that can't be set here: below the site's floor. They teach, no more.
    outside: frozenset[PowerMode] = frozenset()
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
    is_blind: bool = False  # the power can't be read
    lacks_steps: bool = False  # the training was found to count none
    error: str | None = None
    restored: bool = False

    @property
    def samples(self) -> list[Sample]:
        """Return what was measured, unsafe samples included."""
        return [report.sample for report in self.reports if report.sample is not None]

    @property
    def measured(self) -> int:
        """Return how many modes this session measured itself."""
        return len(self.fresh)

    def left_above(self, limit_w: float) -> list[PowerMode]:
        """Return the modes that were left because of a reading above this limit, and not measured within it since."""
        latest = {report.mode: report.sample for report in self.reports if report.sample is not None}
        return [
            mode
            for mode, sample in latest.items()
            if sample.unsafe and max(sample.power_w, sample.power_peak_w or 0.0) > limit_w
        ]

    def measured_points(self) -> list[Point]:
        """Return the measured points, the latest of each mode, without those that were left as unsafe."""
        return [_point(report) for report in self._latest()]

    def proven_points(self) -> list[Point]:
        """Return the measured points that hold here: of this session, or of an exact profile that was not found wrong.

        A warm profile's samples were measured on another board or job: they teach, but no mode is safe by them.
        """
        return [
            _point(report)
            for report in self._latest()
            if not report.left_early and (report.mode in self.fresh or report.noise is None)
        ]

    def learn(self, answer: PlanAnswer) -> None:
        """Keep what an answer of the planner says of the profile; what it does not name stays."""
        self.points = list(answer.front) or self.points
        self.reference = answer.reference or self.reference
        self.reference_version = answer.reference_version or self.reference_version
        self.planned = answer.planned_modes or self.planned
        if answer.validation_percent is not None:
            self.validation = list(answer.validation_percent)

    def _latest(self) -> list[ModeReport]:
        latest = {report.mode: report for report in self.reports if report.usable and report.mode not in self.outside}
        return [report for report in latest.values() if report.sample is not None and not report.sample.unsafe]


def _point(report: ModeReport) -> Point:
    assert report.sample is not None
    point = Point.of(report.sample, report.noise or 0.0, report.power_noise)
    return replace(point, measured=not report.left_early)
