"""`powertrain choose`: the best measured mode under limits, which is what brute force would find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from powertrain.choosing import LIMIT_WORDS, TOGETHER, Choice
from powertrain.choosing import choose as choose_row
from powertrain.objectives import ASSUMED_PEAK_FACTOR, Limits, Objective, PowerStatistic, Work
from powertrain.prediction import Prediction
from powertrain.samples import SampleTable
from powertrain_cli.errors import Exit
from powertrain_cli.limit_options import by_attribute, limit_options
from powertrain_cli.measured import BatchSizeOption, DataFile, DeviceOption, PowerOption, doubt, figures, load
from powertrain_cli.output import JsonFlag, emit_json, stdout, table, warn


def mount(root: typer.Typer) -> None:
    """Add the verb to the command."""
    root.command("choose")(choose)


@limit_options(after="power_statistic")
def choose(
    data: DataFile,
    power: PowerOption = None,
    objective: Annotated[Objective, typer.Option(help="What to make as small as the limits allow.")] = (
        Objective.MIN_TIME
    ),
    power_statistic: Annotated[
        PowerStatistic, typer.Option(help="Whether --power is for the mean or for the highest single reading.")
    ] = PowerStatistic.MEAN,
    samples_per_epoch: Annotated[
        int | None, typer.Option(min=1, help="Size of the data set; limits per epoch need it.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs; limits on the whole training need it.")] = None,
    noise: Annotated[
        float, typer.Option(min=0, max=1, help="Relative standard deviation of the measurements, such as 0.01.")
    ] = 0.0,
    risk: Annotated[
        float | None, typer.Option(show_default="0.05", help="Joint probability of breaking a limit, given the noise.")
    ] = None,
    device: DeviceOption = None,
    batch_size: BatchSizeOption = None,
    as_json: JsonFlag = False,
    **limit_values: float | None,
) -> None:
    """Choose the best measured mode that keeps the limits.

    Measured values count as exact unless --noise is given: then a mode is taken
    only if the joint probability of breaking a limit is at most --risk.
    If no mode keeps the limits, the closest is shown and the exit code is 1.

    [bold]Examples[/bold]

    powertrain choose resnet.csv --power 30

    powertrain choose resnet.csv --power 30 --noise 0.01 --risk 0.05 --samples-per-epoch 50000

    powertrain choose resnet.csv --objective MinPower --epoch-seconds 300 --samples-per-epoch 50000
    """
    measured = load(data, device)
    size, samples = measured.of_one_batch_size(batch_size, "step times of different ones do not compare")
    limits = Limits(power_w=power, power_statistic=power_statistic, **by_attribute(limit_values))
    question = Question(samples, objective, limits, Work(size, samples_per_epoch, epochs), noise, risk)
    choice = question.answer()
    notes = question.notes(choice)
    for note in notes:
        warn(note)
    if as_json:
        emit_json(_json(str(measured.path), question, choice, [*samples.warnings, *notes]))
    else:
        _print(question, choice)
    if choice.row is None:
        raise typer.Exit(int(Exit.NO_SOLUTION))


@dataclass(frozen=True, eq=False)
class Question:
    """What was asked."""

    samples: SampleTable
    objective: Objective
    limits: Limits
    work: Work
    noise: float
    given_risk: float | None

    @property
    def risk(self) -> float:
        """Return the given risk or the default of a TrainingJob."""
        return 0.05 if self.given_risk is None else self.given_risk

    def answer(self) -> Choice:
        """Choose among all measured modes."""
        step_s, power_w = self.samples.step_s, self.samples.power_w
        prediction = Prediction(step_s, step_s * self.noise, power_w, power_w * self.noise)
        factor = self.samples.peak_factor(ASSUMED_PEAK_FACTOR)
        return choose_row(prediction, self.objective, self.limits, self.work, self.risk, factor)

    def notes(self, choice: Choice) -> list[str]:
        """Say what was assumed, and what is doubtful about the answer."""
        doubtful = None if choice.row is None else doubt(self.samples, choice.row)
        notes = [doubtful] if doubtful else []
        peaks = self.samples.power_peak_w
        unknown = len(self.samples) if peaks is None else int(np.isnan(peaks).sum())
        if self.limits.needs_peak and unknown:
            notes.append(
                f"{unknown:,} of {len(self.samples):,} modes have no measured peak (column power_peak_w):"
                f" it is taken as {ASSUMED_PEAK_FACTOR:g} × the median"
            )
        if self.given_risk is not None and self.noise == 0:
            notes.append("--risk has no effect without --noise: measured values count as exact")
        return notes


def _print(question: Question, choice: Choice) -> None:
    samples, work = question.samples, question.work
    rows = {"best": choice.row, "runner-up": choice.runner_up}
    if choice.closest is not None:
        rows = {"closest": choice.closest.row}
    present_rows = {name: row for name, row in rows.items() if row is not None}
    columns = ["", "mode", "step ms", "power W"]
    columns += ["J a step"] if work.steps_per_epoch is None else ["epoch s", "epoch kJ"]
    if present_rows:
        table(
            "", columns, [[name, *_cells(samples, row, work)] for name, row in present_rows.items()], right=columns[2:]
        )
    say = stdout()
    for name, row in present_rows.items():
        say.print(f"{name}: {samples.mode(row)}", markup=False, soft_wrap=True)
    say.print(choice.reason, markup=False, soft_wrap=True)
    for name, count in choice.excluded.items():
        if count:
            say.print(f"excluded by {_limit_in_words(question.limits, name)}: {count:,}", markup=False, soft_wrap=True)
    if choice.row is not None and question.noise > 0:
        say.print(f"probability of breaking a limit: {choice.break_probability:.2g}", markup=False)


def _cells(samples: SampleTable, row: int, work: Work) -> list[str]:
    step_s, power_w = float(samples.step_s[row]), float(samples.power_w[row])
    cells = [samples.mode(row).human, f"{step_s * 1e3:.2f}", f"{power_w:.2f}"]
    if work.steps_per_epoch is None:
        return [*cells, f"{step_s * power_w:#.3g}"]
    epoch_s = step_s * work.steps_per_epoch
    return [*cells, f"{epoch_s:.1f}", f"{epoch_s * power_w / 1e3:.2f}"]


def _limits(limits: Limits) -> dict[str, float]:
    """Return the limits that are set, by their names in a TrainingJob."""
    return {limit.wire_name: value for limit, value in limits.values()}


def _limit_in_words(limits: Limits, name: str) -> str:
    if name == TOGETHER:
        return "all limits together"
    words, unit = LIMIT_WORDS[name]
    peak = name == "powerWatts" and limits.power_statistic is PowerStatistic.PEAK
    return f"{'peak ' if peak else ''}{words} ≤ {_limits(limits)[name]:g} {unit}"


def _json(path: str, question: Question, choice: Choice, warnings: list[str]) -> dict[str, Any]:
    def row_json(row: int | None) -> dict[str, Any] | None:
        return None if row is None else _with_epoch(figures(question.samples, row), question.work)

    closest = choice.closest
    return {
        "file": path,
        "batch_size": question.work.batch_size,
        "objective": str(question.objective),
        "limits": _limits(question.limits) | {"powerStatistic": str(question.limits.power_statistic)},
        "noise": question.noise,
        "risk": question.risk,
        "modes": len(question.samples),
        "feasible": choice.feasible,
        "best": row_json(choice.row),
        "break_probability": choice.break_probability if choice.row is not None else None,
        "runner_up": row_json(choice.runner_up),
        "excluded": choice.excluded,
        "closest": None
        if closest is None
        else {
            "measured": row_json(closest.row),
            "limit": closest.constraint,
            "value": closest.value,
            "at_most": closest.limit,
            "break_probability": closest.break_probability,
        },
        "reason": choice.reason,
        "warnings": warnings,
    }


def _with_epoch(row: dict[str, Any], work: Work) -> dict[str, Any]:
    steps = work.steps_per_epoch
    epoch_s = None if steps is None else row["step_s"] * steps
    return row | {"epoch_s": epoch_s, "epoch_j": None if epoch_s is None else epoch_s * row["power_w"]}
