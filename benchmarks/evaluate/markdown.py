"""The study's tables as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from benchmarks.evaluate import paper, plan
from benchmarks.evaluate.figures import CHOOSERS
from benchmarks.evaluate.odd_rows import best_rows, rebased
from benchmarks.evaluate.plan import Cell
from benchmarks.evaluate.results import Results
from benchmarks.evaluate.settings_figures import WORKLOADS
from benchmarks.evaluate.stepped import unread_pct
from benchmarks.evaluate.tables import SHIPPED, Store, descent, origin
from benchmarks.evaluate.work import BUDGETS_W

from powertrain import devices
from powertrain.evaluation import knob_worth, preset_watts
from powertrain.reference import shipped

NO_DATA_HERE = "no data here"
NAMES = {table: name for name, table in WORKLOADS.items()}
BOARDS = {"orin-agx": "Orin AGX", "xavier-agx": "Xavier AGX", "orin-nano": "Orin Nano"}
SIMULATED_NAMES = {"resnet18": "ResNet", "lstm": "LSTM"}


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def pair(summary: dict[str, Any] | None, kind: str = "", of: str = "median") -> str:
    """Return the errors of time and power over the seeds, by default their median; kind "all_": over all modes."""
    if summary is None:
        return NO_DATA_HERE
    time_pct, power_pct = (summary[f"mape_{kind}{name}_pct"][of] for name in ("time", "power"))
    return f"{time_pct:.1f} / {power_pct:.1f}"


@dataclass(frozen=True)
class Tables:
    """Every generated block by its name."""

    results: Results
    store: Store

    def blocks(self) -> dict[str, Callable[[], str]]:
        """Return name → how the block is made."""
        return {
            "scenarios": self.scenarios,
            "predictors-lstm": partial(self.predictors, plan.LSTM),
            "predictors-mobilenet": partial(self.predictors, plan.MOBILENET),
            "choices-lstm": partial(self.choices, plan.LSTM),
            "choices-resnet": partial(self.choices, plan.RESNET),
            "choices-mobilenet": partial(self.choices, plan.MOBILENET),
            "odd-rows": self.odd_rows,
            "matrix-paper": self.matrix_paper,
            "matrix-ours": self.matrix_ours,
            "presets": self.presets,
            "reference-modes": self.reference_modes,
            "profiled-modes": self.profiled_modes,
            "steps": self.steps,
            "noise": self.noise,
            "prior-width": self.prior_width,
            "cores": self.cores,
            "knobs": self.knobs,
        }

    def scenarios(self) -> str:
        """Return the five scenarios: the paper, its method re-run, and ours, side by side."""
        header = ["scenario", "reference → target", "our target's data", "paper: transfer", "paper: from scratch",
                  "paper validated on", "`powertrain` re-run, 50 modes", "`nn` re-run, 50 modes",
                  "`transfer`, 20 modes", "`transfer`, 50 modes"]  # fmt: skip
        cells_of_scenario = plan.scenarios()
        rows = []
        for row in paper.ROWS:
            ours = ["no data", *[""] * 4]
            if row.target is not None:
                cells = cells_of_scenario[row.target, row.reference]
                figures = [self._both(cells.get(name), n) for name, n in
                           (("powertrain", 50), ("nn", 50), ("transfer", 20), ("transfer", 50))]  # fmt: skip
                ours = [_data(row), *figures]
            rows.append([row.scenario, row.case, ours[0], row.transfer, row.scratch, row.validated, *ours[1:]])
        return markdown(header, rows)

    def predictors(self, target: str) -> str:
        """Return the error of each strategy at each number of modes: median and worst seed."""
        rows = []
        for strategy, cells in plan.curve(target).items():
            figures = [self._with_worst(cells, n) if n in cells[0].samples else "–" for n in plan.CURVE]
            rows.append([f"`{strategy}`", str(len(cells)), *figures])
        return markdown(["strategy", "seeds", *(f"n = {n}" for n in plan.CURVE)], rows)

    def choices(self, target: str) -> str:
        """Return penalty and excess of each strategy under binding budgets."""
        cells_of = plan.choices(target)
        rows = []
        for label, (name, count) in CHOOSERS.items():
            if name not in cells_of:
                continue
            cells = cells_of[name]
            summary, excess = self.results.summary(cells, count), self.results.excess(cells, count)
            if summary is None or excess is None:
                rows.append([label, NO_DATA_HERE, *[""] * 6, paper.CHOICES.get((target, name), "–")])
                continue
            rows.append([
                label, f"{summary['profiling_minutes']:.1f}", _quantiles(self.results.penalties(cells, count)),
                self._penalty(cells, count), f"{excess.over_pct:.1f}", f"{excess.over_1w_pct:.1f}",
                f"{excess.area_w:.2f}", str(len(cells)), paper.CHOICES.get((target, name), "–"),
            ])  # fmt: skip
        header = ["strategy, modes", "profiling minutes", "penalty % where the budget is kept: median / p90",
                  "penalty % of all choices: median / p90", "A/L %", "A/L+1 %", "area W", "seeds",
                  "paper: median penalty, measured, all budgets"]  # fmt: skip
        return markdown(header, rows)

    def odd_rows(self) -> str:
        """Return what a few rows that fit no neighbour do to the penalties on ResNet's table."""
        if self.store.missing(plan.RESNET) or self.store.missing(plan.LSTM):
            return NO_DATA_HERE
        table = self.store.table(plan.RESNET)
        best = best_rows(table, shipped().physics, BUDGETS_W)
        cells_of, rows = plan.choices(plan.RESNET), []
        for label, (name, count) in CHOOSERS.items():
            within_budget = [b for b in self.results.binding(cells_of.get(name, []), count) if b.excess_w <= 0]
            if within_budget:
                against_all = [b.penalty_pct for b in within_budget]
                rows.append([label, _quantiles(against_all), _quantiles([rebased(b, best) for b in within_budget])])
        odd = sum(row.odd for row in best.values())
        against = f"against the fastest row (odd at {odd} of {len(best)} budgets)"
        return markdown(["strategy, modes", against, "against the fastest row that is not odd"], rows)

    def matrix_paper(self) -> str:
        """Return the paper's Fig. 6 beside its method re-run."""
        study = plan.matrix("powertrain")
        names = list(dict.fromkeys(source for source, _ in study))
        rows = [
            [_named(source), *(f"{paper.MATRIX[source, t]} · **{self._cell(study[source, t], 50)}**" for t in names)]
            for source in names
        ]
        return markdown(["reference \\ target", *map(_named, names)], rows)

    def matrix_ours(self) -> str:
        """Return our matrix with the picks of the rule."""
        study = plan.matrix("transfer")
        names = list(dict.fromkeys(source for source, _ in study))
        rows = [[_named(source), *(self._cell(study[source, t], 20) for t in names)] for source in names]
        picks = [self.results.cells.get(Cell("picks", name, seed=plan.SEEDS)) for name in names]
        rows.append(["*picked*", *(NO_DATA_HERE if p is None else _picked(p) for p in picks)])
        rows.append(["*loss*", *(self._loss(study, names, t, p) for t, p in zip(names, picks, strict=True))])
        return markdown(["reference \\ target", *map(_named, names)], rows)

    def presets(self) -> str:
        """Return labels and true watts."""
        device = devices.get("orin-agx")
        rows = []
        for name, table in WORKLOADS.items():
            if self.store.missing(table):
                rows.append([name, origin(table), NO_DATA_HERE, "", ""])
                continue
            entries = preset_watts(self.store.table(table), device)
            rows.append([name, origin(table), *(_preset(entry) for entry in entries)])
        labels = [f"label {p.watts:g} W" for p in sorted(device.presets, key=lambda p: p.watts or 0) if p.watts]
        return markdown(["workload", "data", *labels], rows)

    def reference_modes(self) -> str:
        """Return errors by the size of the reference."""
        study = plan.reference_sizes()
        sizes = sorted({rows for _, rows in study})
        rows = [
            [f"`{strategy}`, {n} modes", *(pair(self.results.summary(study[strategy, size], n)) for size in sizes)]
            for strategy, n in (("transfer", 20), ("powertrain", 50))
        ]
        return markdown(["", *(f"{size} modes" for size in sizes)], rows)

    def profiled_modes(self) -> str:
        """Return error, penalty and minutes by the number of profiled modes."""
        rows = []
        for n, cells in plan.profiled_modes().items():
            rows.append([str(n), *self._chosen(cells, n)])
        header = ["modes", "error time / power %", "penalty %: median / p90", "over budget %", "minutes"]
        return markdown(header, rows)

    def steps(self) -> str:
        """Return errors by steps per mode, rate of readings and jitter, and how many modes get no reading."""
        rows = []
        for target in (plan.SHORT_STEPS, plan.MOBILENET):
            study, table = plan.steps_per_mode(target), self.store.table(target)
            for n in plan.STEPS:
                summaries = [self.results.summary(study[*how, n], 20) if (*how, n) in study else None
                         for how in plan.MEASUREMENTS]  # fmt: skip
                minutes = "" if summaries[0] is None else f"{summaries[0]['profiling_minutes']:.1f}"
                unread = f"{unread_pct(table, n, 1.0):.0f} %"
                rows.append(
                    [_named(target), str(n), *("–" if s is None else pair(s) for s in summaries), unread, minutes]
                )
        header = ["workload", "steps", "reading each 0.1 s", "reading each 1 s", "0.1 s, steps scatter by 10 %",
                  "modes without a reading, at 1 s", "minutes"]  # fmt: skip
        return markdown(header, rows)

    def noise(self) -> str:
        """Return choices by noise."""
        rows = [[f"{100 * level:g} %", *self._chosen(cells, 20)] for level, cells in plan.noises().items()]
        header = ["noise", "error time / power %", "penalty %: median / p90", "over budget %", "minutes"]
        return markdown(header, rows)

    def prior_width(self) -> str:
        """Return errors by the prior's width."""
        study = plan.prior_widths()
        widths = sorted({width for _, width in study})
        targets = list(dict.fromkeys(target for target, _ in study))
        rows = [[_named(t), origin(t), _reference(study[t, 1.0]),
                 *(pair(self.results.summary(study[t, w], 10)) for w in widths)] for t in targets]  # fmt: skip
        return markdown(["workload", "data", "reference", *(f"× {width:g}" for width in widths)], rows)

    def cores(self) -> str:
        """Return choices with cores free and fixed, both against the best mode with any number of cores."""
        study = plan.cores()
        rows = []
        for target in dict.fromkeys(name for name, _ in study):
            free, fixed = (self._penalty(study[target, kind], 20) for kind in ("run", "cores"))
            rows.append([_named(target), origin(target), _reference(study[target, "run"]), free, fixed])
        header = ["workload", "data", "reference", "cores free: median / p90", "all cores online: median / p90"]
        return markdown(header, rows)

    def knobs(self) -> str:
        """Return what each knob is worth at the true optimum."""
        kinds = ("all cores online", "memory at maximum", "GPU clock alone")
        rows = []
        for name, table in WORKLOADS.items():
            if self.store.missing(table):
                rows.append([name, origin(table), NO_DATA_HERE, "", ""])
                continue
            worth = knob_worth(self.store.table(table), BUDGETS_W)
            rows.append([name, origin(table), *(_worth(worth.get(kind)) for kind in kinds)])
        return markdown(["workload", "data", *(f"{kind}: median / p90" for kind in kinds)], rows)

    def _both(self, cells: list[Cell] | None, count: int) -> str:
        """Return the error over unseen modes, and over all where that differs."""
        if cells is None:
            return "–"
        summary = self.results.summary(cells, count)
        unseen, everything = pair(summary), pair(summary, "all_")
        return unseen if unseen == everything else f"{unseen} (all: {everything})"

    def _with_worst(self, cells: list[Cell], count: int) -> str:
        summary = self.results.summary(cells, count)
        return NO_DATA_HERE if summary is None else f"{pair(summary)} ({pair(summary, of='worst')})"

    def _cell(self, cells: list[Cell], count: int) -> str:
        if cells[0].kind != "self-fit":
            return pair(self.results.summary(cells, count))
        self_fit = self.results.cells.get(cells[0])
        return NO_DATA_HERE if self_fit is None else f"{pair(self_fit)} †"

    def _loss(self, study: dict[tuple[str, str], list[Cell]], names: list[str], target: str, picked: Any) -> str:
        summaries = {s: self.results.summary(study[s, target], 20) for s in names if s != target}
        if picked is None or None in summaries.values():
            return ""
        errors = {s: sum(v[f"mape_{k}_pct"]["median"] for k in ("time", "power")) for s, v in summaries.items() if v}
        usual = sum(errors[name] * times for name, times in picked.items()) / sum(picked.values())
        best, blind = min(errors.values()), sum(errors.values()) / len(errors)
        return f"{usual / best:.2f} (blind {blind / best:.2f})"

    def _chosen(self, cells: list[Cell], count: int) -> list[str]:
        summary, excess = self.results.summary(cells, count), self.results.excess(cells, count)
        if summary is None or excess is None:
            return [NO_DATA_HERE, "", "", ""]
        minutes = f"{summary['profiling_minutes']:.1f}"
        return [pair(summary), self._penalty(cells, count), f"{excess.over_pct:.1f}", minutes]

    def _penalty(self, cells: list[Cell], count: int) -> str:
        summary = self.results.summary(cells, count)
        if summary is None:
            return NO_DATA_HERE
        binding = summary["penalty_binding_pct"]
        return f"{binding['median']:.1f} / {binding['p90']:.1f}"


def _named(table: str) -> str:
    if table in NAMES:
        return NAMES[table]
    _, board, workload, _ = table.split(":")
    board, workload = BOARDS.get(board, board), SIMULATED_NAMES.get(workload, workload)
    return workload if board == "Orin AGX" else f"{workload} on {board}"


def _reference(cells: Sequence[Cell]) -> str:
    return _named(plan.RESNET if cells[0].reference == SHIPPED else cells[0].reference)


def _data(row: paper.Row) -> str:
    """Say where a row's target comes from; ‡: simulated, with parameters that were fitted to the reference's table."""
    assert row.target is not None
    source = plan.RESNET if row.reference == SHIPPED else row.reference
    related = origin(row.target) == "simulated" and descent(row.target) == source
    return f"{origin(row.target)}{' ‡' if related else ''}"


def _picked(picked: dict[str, int]) -> str:
    if len(picked) == 1:
        return _named(next(iter(picked)))
    return ", ".join(f"{_named(name)} {times}×" for name, times in picked.items())


def _quantiles(values: Sequence[float]) -> str:
    return "none keeps it" if not values else f"{np.median(values):.1f} / {np.percentile(values, 90):.1f}"


def _preset(entry: dict[str, Any]) -> str:
    slower = entry["slower_than_best_pct"]
    speed = "no mode keeps the label" if slower is None else f"{slower:+.0f} % time"
    near = "" if entry["exact"] else "≈ "
    return f"{near}{entry['power_w']:.1f} W, {speed}"


def _worth(quantiles: dict[str, float] | None) -> str:
    if quantiles is None:
        return "never reached"
    missed = f", {quantiles['unreachable_pct']:.0f} % of budgets out of reach" if quantiles["unreachable_pct"] else ""
    return f"{quantiles['median']:.1f} / {quantiles['p90']:.0f} %{missed}"
