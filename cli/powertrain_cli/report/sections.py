"""The sections of the report page, top down: each takes data and returns markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from powertrain_cli.report.document import Basis, Board, Comparison, FleetBoard, Point, Report, Timeline, Trial
from powertrain_cli.report.markup import Html, definitions, element, table

N, MODE = "n", "mode"
UNSURE = 0.5
PREDICTED = (
    "Predicted rows come from the model of the modes above, ± two standard deviations; ≈ where that exceeds half of "
    "the value. Presets with fewer cores are predicted from modes with all cores on."
)


def head(report: Report) -> Iterator[Html]:
    """The name, what was achieved in one sentence, and what was asked for."""
    yield element("h1", report.name)
    yield element("p", report.summary, class_="summary")
    words = ", ".join(filter(None, (report.phase, report.objective, report.limits)))
    yield element("p", words, class_="soft")
    if report.note:
        yield element("p", report.note, class_="soft")


def boards(report: Report) -> Iterator[Html]:
    """Everything about each board."""
    for number, board in enumerate(report.boards):
        name = f"{board.node} ({board.facts.name})" if board.facts.name else board.node
        parts = [element("h2", name)]
        if board.message:
            parts.append(element("p", board.message))
        parts += [
            *_over_time(board, number),
            *_front(board, number),
            *_trials(board),
            *_prediction(board),
            *_comparisons(board),
            *_facts(board),
        ]
        yield element("section", *parts)


def fleet(report: Report) -> Iterator[Html]:
    """All boards against their cap, where there are several."""
    shared = report.fleet
    if shared is None:
        return
    yield element("h2", f"All boards of {shared.name}")
    if shared.at_s:
        stacked = f"Stacked power of {len(shared.boards)} boards against the cap, over time."
        yield _chart("fleet-power", 0, stacked, f"{stacked} Source: {shared.source}." if shared.source else "")
        yield element("h3", "Shares over time")
        yield _chart("fleet-share", 0, "How many watts each board may take, over time.")
    else:
        yield element("p", "No time line: no board has told of a session yet.", class_="soft")
    if any(board.state for board in shared.boards):
        yield element("h3", "The boards now")
        yield _shares(shared.boards)
    if shared.makespans:
        yield element("h3", "Time until all boards have finished")
        rows = [
            [each.sharing, str(timedelta(seconds=round(each.seconds))), each.basis.value] for each in shared.makespans
        ]
        yield table((("sharing", "words"), ("time", N), ("basis", "")), rows)


def _shares(boards: Sequence[FleetBoard]) -> Html:
    columns: tuple[tuple[str, str], ...] = (
        ("board", ""),
        ("counts as", ""),
        ("reserved W", N),
        ("draws W", N),
        ("speed", N),
        ("job", ""),
        ("why", "why"),
    )
    rows = [
        [
            board.node,
            board.state,
            "" if board.reserved_w is None else _watts(board.reserved_w),
            "" if board.drawn_w is None else _watts(board.drawn_w),
            "" if board.speed is None else f"{100 * board.speed:.0f} %",
            board.job,
            board.reason,
        ]
        for board in boards
    ]
    if not any(board.reason for board in boards):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return table(columns, rows)


def foot(report: Report) -> Iterator[Html]:
    """What made the page."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    yield element("p", f"Made {report.made_at} by {versions}. Charts: uPlot, MIT licence, © Leon Sorokin.")


def _chart(kind: str, board: int, label: str, caption: str = "") -> Html:
    root = element(
        "div",
        class_="chart",
        data_chart=kind,
        data_board=str(board),
        tabindex="0",
        role="img",
        aria_label=f"{label} Arrow keys read the values.",
    )
    return element("figure", root, element("figcaption", caption or label))


def _over_time(board: Board, number: int) -> Iterator[Html]:
    line = board.timeline
    yield element("h3", "Power over time")
    if not line.at_s:
        yield element("p", f"No time line: {line.source}.", class_="soft")
        return
    yield _chart("power", number, "Power over time against the limit.", _source(line))
    if any(each is not None for each in line.step_s):
        yield element("h3", "Step time")
        yield _chart("step", number, "Step time over time.")
    if line.marks:
        rows = [[_clock(mark.at_s), mark.kind.value, mark.text] for mark in line.marks]
        listed = table((("time", N), ("event", ""), ("what happened", "why")), rows)
        yield element("details", element("summary", f"{len(line.marks)} events as a list"), listed)


def _source(line: Timeline) -> str:
    began = f", from {line.began_at}" if line.began_at else ""
    return f"Source: {line.source}{began}. {len(line.at_s)} points."


def _front(board: Board, number: int) -> Iterator[Html]:
    if not board.front and not board.trials:
        return
    yield element("h3", "Time against power")
    caption = "Lower left is better. Bars are ± two standard deviations of a prediction."
    yield _chart("front", number, "The front: predicted and measured modes, the choice, NVIDIA's presets.", caption)


def _trials(board: Board) -> Iterator[Html]:
    if not board.trials:
        return
    yield element("h3", "What was tried, in order")
    columns = (("#", N), ("mode", MODE), ("ms a step", N), ("W", N), ("", "remark"), ("why", "why"))
    rows = [
        [
            str(number),
            trial.point.human,
            _ms(trial.point.step_s),
            _watts(trial.point.power_w),
            _remark(trial),
            trial.reason,
        ]
        for number, trial in enumerate(board.trials, start=1)
    ]
    mode = board.chosen.mode if board.chosen else None
    chosen_row = next((place for place, trial in enumerate(board.trials) if trial.point.mode == mode), None)
    yield table(columns, rows, chosen_row)
    yield element("p", f"{len(board.trials)} modes in {board.profiling_s:.0f} s.", class_="soft")


def _remark(trial: Trial) -> Html:
    words = ["over the limit"] if trial.over_limit else []
    words += ["left early"] if trial.left_early else []
    return element("span", ", ".join(words), class_="over") if words else Html("")


def _prediction(board: Board) -> Iterator[Html]:
    pairs = [("chosen mode", board.predicted, board.observed)]
    pairs += [(trial.point.human, trial.predicted, trial.point) for trial in board.trials if trial.predicted]
    rows = [
        [
            name,
            _with(expected.step_s * 1e3, expected.step_pm_s and expected.step_pm_s * 1e3),
            _ms(observed.step_s),
            _error(expected.step_s, observed.step_s),
            _with(expected.power_w, expected.power_pm_w),
            _watts(observed.power_w),
            _error(expected.power_w, observed.power_w),
        ]
        for name, expected, observed in pairs
        if expected is not None and observed is not None
    ]
    if not rows:
        return
    yield element("h3", "Predicted against observed")
    columns = (("", MODE), ("predicted ms", N), ("observed ms", N), ("error", N))
    yield table((*columns, ("predicted W", N), ("observed W", N), ("error", N)), rows)


def _comparisons(board: Board) -> Iterator[Html]:
    if not board.comparisons or board.chosen is None:
        return
    yield element("h3", "Energy and time against other modes")
    columns = [("", ""), ("mode", MODE), ("ms a step", N), ("W", N), ("J a step", N)]
    columns += [("speed of the choice", N), ("energy of the choice", N), ("within the limit", ""), ("basis", "")]
    own = board.chosen
    first = ["chosen", own.human, _ms(own.step_s), _watts(own.power_w), f"{own.step_s * own.power_w:.2f}"]
    rows = [[*first, "", "", _keeps(own, board.limit_w), own.basis.value]]
    rows += [_against(each) for each in board.comparisons]
    yield table(columns, rows, chosen_row=0)
    if any(each.point.basis is Basis.PREDICTED for each in board.comparisons):
        yield element("p", PREDICTED, class_="soft")


def _against(each: Comparison) -> list[str]:
    point = each.point
    return [
        each.name,
        point.human,
        _with(point.step_s * 1e3, point.step_pm_s and point.step_pm_s * 1e3),
        _with(point.power_w, point.power_pm_w),
        f"{each.energy_per_step_j:.2f}",
        f"{each.speed_ratio:.2f}×",
        f"{each.energy_ratio:.2f}×",
        "" if each.keeps_limit is None else "yes" if each.keeps_limit else "no",
        point.basis.value,
    ]


def _facts(board: Board) -> Iterator[Html]:
    facts = board.facts
    yield element("h3", "Board and software")
    yield definitions(
        (
            ("board", facts.model or facts.name),
            ("module", facts.module),
            ("Jetson Linux", facts.l4t),
            ("power sensor", facts.total_rail),
            ("CPU cores", facts.core_policy),
            ("batch size", "" if board.batch_size is None else str(board.batch_size)),
            ("strategy", board.strategy),
            ("reference", board.reference),
            ("agent", facts.agent),
            ("energy of the session", "" if board.energy_j is None else f"{board.energy_j / 3600:.2f} Wh"),
            ("guard windows and readings above a limit", str(board.violations)),
        )
    )


def _keeps(point: Point, limit_w: float | None) -> str:
    return "" if limit_w is None else "yes" if point.power_w <= limit_w else "no"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"


def _watts(value: float) -> str:
    return f"{value:.1f}"


def _with(value: float, margin: float | None) -> str:
    if margin is not None and margin > UNSURE * value:
        return f"≈ {value:.0f}"
    return f"{value:.1f}" if margin is None else f"{value:.1f} ± {margin:.1f}"


def _error(expected: float, observed: float) -> str:
    return f"{100 * (observed / expected - 1):+.1f} %" if expected else ""


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
