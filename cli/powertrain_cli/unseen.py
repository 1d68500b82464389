"""`powertrain evaluate --unseen-batch-sizes`: how well batch sizes are predicted that were never profiled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.progress import Progress, TaskID

from powertrain.evaluation import EvaluationError
from powertrain.evaluation.batch_sizes import UnseenSettings, evaluate_unseen
from powertrain.samples import SampleTable
from powertrain_cli.errors import CliError
from powertrain_cli.output import emit_json, progress, stdout, table, warn
from powertrain_cli.tables import load_reference

UNSEEN_SAMPLES = (40,)
LEGEND = (
    "Medians over seeds (the worst seed). time, power: mean error of the predictions in % over every mode of batch "
    "sizes that were not profiled. plausible rows: without rows that are much faster than a mode whose every clock is "
    "at least as high. 95 %: share of times / powers inside their interval. min: profiling minutes. linear, "
    "log-linear: every mode of the profiled sizes is known, and each is interpolated on its own."
)


def score_unseen(
    target: SampleTable,
    reference: str,
    reference_batch_size: int | None,
    device: str | None,
    counts: Sequence[int | str],
    seeds: int,
    noise: float,
) -> dict[str, Any]:
    """Return the results for each number of samples."""
    model, source, warnings = load_reference(reference, reference_batch_size, device)
    for text in (*target.warnings, *warnings):
        warn(text)
    results = []
    try:
        with progress() as bar:
            for count in counts:
                if not isinstance(count, int):
                    raise CliError(f"--unseen-batch-sizes takes numbers of samples, not {count!r}")
                task = bar.add_task(f"{count} samples", total=1.0)
                settings = UnseenSettings(count, seeds, noise)
                results += evaluate_unseen(target, model, settings, partial(_advance, bar, task))
    except EvaluationError as error:
        raise CliError(str(error)) from None
    return {"reference": source, "results": results}


def _advance(bar: Progress, task: TaskID, share: float) -> None:
    bar.update(task, completed=share)


def show_unseen(document: dict[str, Any], as_json: bool) -> None:
    """Print the results as a table or as JSON."""
    if as_json:
        emit_json(document)
        return
    profiled = ", ".join(map(str, document["results"][0]["profiled"]))
    rows = [
        (
            result["strategy"],
            str(result["batch_size"]).removeprefix("unseen, "),
            str(result["samples"]),
            *(f"{result[key]['median']:.1f} ({result[key]['worst']:.1f})" for key in _ERRORS),
            " / ".join(_percent(result["calibration"][key]) for key in ("time_95", "power_95")),
            f"{result['profiling_minutes']:.1f}" if result["profiling_minutes"] else "–",
        )
        for result in document["results"]
    ]
    columns = ["by", "batch size", "n", "time %", "power %", "in 95 %", "min"]
    title = f"{document['reference']} → {document['target']}, profiled at {profiled}"
    table(title, columns, rows, right=columns[2:])
    stdout().print(LEGEND)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}"


_ERRORS = ("mape_time_pct", "mape_power_pct")
