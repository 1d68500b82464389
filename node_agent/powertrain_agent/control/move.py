"""Moving the board: writes the steps, reads back every value, tries again a few times, and names what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from powertrain_agent.control.attributes import Attribute, Role
from powertrain_agent.control.write_order import Destination, Step, sequence
from powertrain_agent.hardware.cpu import online
from powertrain_agent.sysfs import Sysfs, SysfsError

TRIES = 3
PAUSE_S = 0.05  # a busy device (EBUSY) is usually free after some milliseconds


@dataclass(frozen=True)
class Problem:
    """One attribute that does not show what it should; `actual` is None when it can't be read."""

    path: str
    group: str
    expected: str
    actual: str | None
    why: str

    def __str__(self) -> str:
        symptom = "can't be read" if self.actual is None else f"shows {self.actual}"
        return f"{self.path} {symptom}, not {self.expected} ({self.why})"


@dataclass
class MoveOutcome:
    """What a move left: problems that stayed, those that a further try corrected, side effects, groups it wrote to."""

    problems: list[Problem] = field(default_factory=list)
    corrected: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    written_groups: set[str] = field(default_factory=set)


class Mover:
    """Writes steps to the board. `pause` waits between tries and is a parameter for tests."""

    def __init__(self, sysfs: Sysfs, pause: Callable[[float], None]) -> None:
        self._sysfs = sysfs
        self._pause = pause

    def read(self, attributes: Iterable[Attribute]) -> dict[str, str | None]:
        """Return what each attribute shows, by path; None where it can't be read."""
        members = tuple(attributes)
        texts = self._sysfs.read_each([attribute.shown_at for attribute in members])
        return {attribute.path: texts[attribute.shown_at] for attribute in members}

    def online(self) -> frozenset[int]:
        """Return the CPUs that are online; without that file every policy counts as active."""
        try:
            return frozenset(online(self._sysfs))
        except SysfsError:
            return frozenset(range(1024))

    def move(
        self,
        attributes: tuple[Attribute, ...],
        target: Mapping[str, str],
        needed: set[str],
        after_cores_up: Callable[[], Destination] | None = None,
    ) -> MoveOutcome:
        """Write the steps in their order; then read the clocks back, and write those once more that changed since."""
        outcome = MoveOutcome()
        clocks: list[Step] = []
        for step in sequence(self, (attributes, target), needed, after_cores_up):
            self._run(step, outcome)
            clocks += [step] if step.sets_clock else []
        outcome.written_groups = {step.name for step in clocks}
        self._read_back(clocks, outcome)
        return outcome

    def _read_back(self, clocks: list[Step], outcome: MoveOutcome) -> None:
        """One clock's writes may undo another's: what was fine at its own turn is checked again at the end."""
        failed = {problem.group for problem in outcome.problems}
        active = self.online()
        for step in clocks:
            expect = {attribute: value for attribute, value in step.expect.items() if attribute.active(active)}
            if step.name not in failed and expect and self._mismatches(expect, {}, {}):
                self._run(Step(step.name, step.writes, expect), outcome)

    def _run(self, step: Step, outcome: MoveOutcome) -> None:
        first: list[Problem] = []
        wrong: list[Problem] = []
        for attempt in range(TRIES):
            if attempt:
                self._pause(PAUSE_S * attempt)
            before = self.read(step.expect)
            errors = self._write(step)
            wrong = self._mismatches(step.expect, before, errors)
            if not wrong:
                break
            first = first or wrong
        outcome.problems += wrong
        if not wrong:
            outcome.corrected += first

    def _write(self, step: Step) -> dict[str, SysfsError]:
        errors: dict[str, SysfsError] = {}
        for path, text in step.writes:
            try:
                self._sysfs.write(path, text)
            except SysfsError as error:
                errors[path] = error
        return errors

    def _mismatches(
        self, expect: Mapping[Attribute, str], before: Mapping[str, str | None], errors: Mapping[str, SysfsError]
    ) -> list[Problem]:
        wrong, readings = [], self.read(expect)
        for attribute, expected in expect.items():
            actual = readings[attribute.path]
            # A refused minimum may look right behind the maximum, and an older, higher one would come up with it.
            if actual != expected or (attribute.role is Role.MIN and attribute.path in errors):
                why = _why(actual, before.get(attribute.path), errors.get(attribute.path))
                wrong.append(Problem(attribute.path, attribute.group, expected, actual, why))
        return wrong


def _why(actual: str | None, before: str | None, error: SysfsError | None) -> str:
    if error is not None:
        return f"refused with {error.code}"
    if actual is None:
        return "unreadable"
    if before is None:
        return "undone"
    return "ignored" if actual == before else "rounded or changed by someone else"
