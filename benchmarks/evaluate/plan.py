"""What `make evaluate` computes: cells, each one run of one seed, gathered into studies."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.evaluate.tables import NETWORKS, SHIPPED, descent

from powertrain_agent.simtrain import JITTER

LSTM, RESNET = "lstm", "resnet18"
MOBILENET, YOLO, BERT = (f"sim:orin-agx:{name}:16" for name in ("mobilenet-v3", "yolov8n", "bert"))
XAVIER = tuple(f"sim:xavier-agx:{name}:16" for name in ("resnet18", "mobilenet-v3"))
NANO = tuple(f"sim:orin-nano:{name}:16" for name in ("resnet18", "mobilenet-v3"))
SHORT_STEPS = "sim:orin-agx:lstm:16"  # its fastest steps take 10 ms
BATCHES = tuple(f"sim:orin-agx:{name}:{size}" for name in ("resnet18", "mobilenet-v3") for size in (8, 32))
INFERENCE = ("resnet18-inference:1", "resnet18-inference:32", "lstm-inference:1", "lstm-inference:32")
CURVE = (10, 20, 50, 100)
STEPS = (5, 10, 20, 30, 40)
ROUGH_JITTER = 0.1
MEASUREMENTS = ((0.1, JITTER), (1.0, JITTER), (0.1, ROUGH_JITTER))  # seconds between readings, jitter of a step
SEEDS = 5
TRAINED = ("nn", *NETWORKS)
REGRESSORS = ("linear", "tree", "forest", "mlp")
# A network's training grows with its modes; the rest is cheap. Weights of the progress bar, in seconds.
SECONDS_PER_MODE = {"nn": 0.06, "powertrain": 0.06, "powertrain-head-first": 0.06, "mlp": 0.04, "forest": 0.02}
SECONDS_PER_CHECK = 0.7  # under all budgets together


@dataclass(frozen=True)
class Cell:
    """One unit of work with everything that its result depends on, besides the code and the tables."""

    kind: str  # run, self-fit, fronts, picks, cores
    target: str
    strategy: str = "transfer"
    reference: str = SHIPPED
    samples: tuple[int, ...] = ()
    seed: int = 0
    aim: str = "accuracy"
    checks: int = 0
    noise: float = 0.0
    prior_width: float = 1.0
    steps: int = 40
    period_s: float = 0.0  # of power readings in a simulated measurement; 0: the table's medians are told
    jitter: float = JITTER  # of single steps in such a measurement

    @property
    def trains(self) -> bool:
        """Say whether this is the training of a reference's networks, which other cells wait for."""
        return self.kind == "self-fit" and self.strategy in NETWORKS

    @property
    def seconds(self) -> float:
        """Return about how long it takes."""
        if self.trains:
            return 6.0
        return 0.5 + SECONDS_PER_MODE.get(self.strategy, 0.02) * sum(self.samples) + SECONDS_PER_CHECK * self.checks


def unbiased(target: str) -> str:
    """Return the reference to judge a target with: ResNet's, and LSTM's where the target has to do with ResNet's table.

    The same rule holds for every study, so no row is better only because its reference saw the answer.
    """
    return LSTM if descent(target) == RESNET else SHIPPED


def seeded(cell: Cell) -> list[Cell]:
    """Return the cell for each seed."""
    return [replace(cell, seed=seed) for seed in range(SEEDS)]


def curve(target: str) -> dict[str, list[Cell]]:
    """Return error against the number of modes, for each strategy that predicts."""
    cells = {}
    for strategy in ("transfer", *NETWORKS, "nn", *REGRESSORS, "ucb"):
        aim = "accuracy" if strategy in ("transfer", "ucb") else "front"
        cells[strategy] = seeded(Cell("run", target, strategy, samples=CURVE, aim=aim))
    return cells


def choices(target: str) -> dict[str, list[Cell]]:
    """Return choices under every budget: ours with 20 modes and two checks, all others with 50 modes."""
    cell = Cell("run", target, reference=unbiased(target), aim="front")
    cells = {
        "transfer": seeded(replace(cell, samples=(20,), checks=2)),
        "transfer, 50": seeded(replace(cell, samples=(50,), checks=2)),
        "ucb": seeded(replace(cell, strategy="ucb", samples=(20, 50))),
        "random-pareto": seeded(replace(cell, strategy="random-pareto", samples=(20, 50))),
        "preset": [replace(cell, strategy="preset", samples=(1,))],
        "maxn": [replace(cell, strategy="maxn", samples=(1,))],
    }
    if target == RESNET:
        networks = scenarios()[target, LSTM]
        regressors = {name: seeded(replace(cell, strategy=name, samples=(50,))) for name in REGRESSORS}
        return cells | {name: networks[name] for name in ("powertrain", "nn")} | regressors
    others = curve(target)
    return cells | {name: others[name] for name in (*TRAINED, *REGRESSORS)}


def scenarios() -> dict[tuple[str, str], dict[str, list[Cell]]]:
    """Return what each row of the five scenarios needs, by target, reference and strategy.

    A target that goes back to ResNet's table gets two rows: the paper's, and one from a reference that can't know it.
    """
    cells_of: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for target in (LSTM, MOBILENET):
        cells = curve(target)
        cells_of[target, SHIPPED] = {name: cells[name] for name in ("transfer", "powertrain", "nn")}
    for target in (YOLO, BERT, *XAVIER, *NANO, *BATCHES, *INFERENCE, RESNET):
        references = (SHIPPED,) if unbiased(target) == SHIPPED else (LSTM,) if target == RESNET else (SHIPPED, LSTM)
        for reference in references:
            cells_of[target, reference] = _scenario(target, reference)
    return cells_of


def _scenario(target: str, reference: str) -> dict[str, list[Cell]]:
    cells = {"transfer": seeded(Cell("run", target, "transfer", reference, (20, 50)))}
    if target in INFERENCE:
        return cells
    cell = Cell("run", target, "powertrain", reference, (50,), aim="front")
    cells["powertrain"] = seeded(cell)
    # From scratch only where the paper has a figure of it, and on what was measured.
    if (target, reference) in ((BERT, SHIPPED), (XAVIER[0], SHIPPED), (RESNET, LSTM)):
        cells["nn"] = seeded(replace(cell, strategy="nn"))
    return cells


def matrix(strategy: str) -> dict[tuple[str, str], list[Cell]]:
    """Return reference × target: the papers' three workloads for networks, all five for the physics."""
    ours = strategy == "transfer"
    names = (RESNET, MOBILENET, YOLO, BERT, LSTM) if ours else (RESNET, MOBILENET, YOLO)
    samples = 20 if ours else 50
    cells = {}
    for source in names:
        reference = SHIPPED if source == RESNET else source
        for target in names:
            if source == target:
                cells[source, target] = [Cell("self-fit", target, strategy, reference)]
            else:
                aim = "accuracy" if ours else "front"
                cell = Cell("run", target, strategy, reference, (samples,), aim=aim)
                existing = [] if ours else scenarios().get((target, reference), {}).get(strategy, [])
                cells[source, target] = existing or seeded(cell)
    return cells


def reference_sizes() -> dict[tuple[str, int], list[Cell]]:
    """Return transfers to LSTM from references of fewer modes."""
    cells = {}
    for rows in (500, 1000, 4368):
        reference = SHIPPED if rows == 4368 else f"{RESNET}#{rows}"
        cells["transfer", rows] = seeded(Cell("run", LSTM, "transfer", reference, (20,)))
        cell = Cell("run", LSTM, "powertrain", reference, (50,), aim="front")
        cells["powertrain", rows] = curve(LSTM)["powertrain"] if reference == SHIPPED else seeded(cell)
    return cells


def trainings() -> list[Cell]:
    """Return the references whose networks must be trained before others can start from them."""
    names = [MOBILENET, YOLO, LSTM, f"{RESNET}#500", f"{RESNET}#1000"]
    return [Cell("self-fit", name.split("#")[0], "powertrain", name) for name in names]


def profiled_modes() -> dict[int, list[Cell]]:
    """Return choices on LSTM after fewer or more profiled modes."""
    sizes = (5, 10, 15, 20, 30, 50)
    return {n: seeded(Cell("run", LSTM, samples=(n,), aim="front", checks=2)) for n in sizes}


def steps_per_mode(target: str) -> dict[tuple[float, float, int], list[Cell]]:
    """Return transfers to a simulated workload whose every mode is measured by so many steps and readings.

    By period of readings, jitter and steps: readings as the agent takes them, as the paper did, and with steps that
    scatter ten times as much.
    """
    cell = Cell("run", target, samples=(20,))
    return {
        (period_s, jitter, steps): seeded(replace(cell, steps=steps, period_s=period_s, jitter=jitter))
        for period_s, jitter in (MEASUREMENTS if target == SHORT_STEPS else MEASUREMENTS[:2])
        for steps in STEPS
    }


def noises() -> dict[float, list[Cell]]:
    """Return choices on LSTM under measurement noise."""
    levels = (0.0, 0.005, 0.01, 0.02, 0.05)
    return {n: seeded(Cell("run", LSTM, samples=(20,), aim="front", checks=2, noise=n)) for n in levels}


def prior_widths() -> dict[tuple[str, float], list[Cell]]:
    """Return transfers with a prior that is narrower or wider than usual."""
    return {
        (target, width): seeded(Cell("run", target, "transfer", unbiased(target), (10,), prior_width=width))
        for target in (LSTM, MOBILENET, XAVIER[0])
        for width in (0.25, 0.5, 1.0, 2.0, 4.0)
    }


def cores() -> dict[tuple[str, str], list[Cell]]:
    """Return choices with all cores kept online, and with cores as a knob."""
    return {
        (target, kind): [replace(cell, kind=kind) for cell in choices(target)["transfer"]]
        for target in (LSTM, RESNET, MOBILENET)
        for kind in ("run", "cores")
    }


def fronts(target: str) -> dict[str, Cell]:
    """Return the fronts of one seed, of every strategy that measures."""
    names = (*NETWORKS, "nn", "random-pareto", *REGRESSORS, "ucb")
    sizes = {"transfer": 20} | dict.fromkeys(names, 50)
    return {name: Cell("fronts", target, name, samples=(n,), aim="front") for name, n in sizes.items()}


def all_cells() -> list[Cell]:
    """Return every cell once, the longest first; trainings of references before all."""
    unique: set[Cell] = {*trainings()}
    for target in (LSTM, MOBILENET):
        unique.update(cell for cells in (*curve(target).values(), *choices(target).values()) for cell in cells)
        unique.update(fronts(target).values())
    unique.update(cell for cells in choices(RESNET).values() for cell in cells)
    for scenario in scenarios().values():
        unique.update(cell for cells in scenario.values() for cell in cells)
    for study in (
        matrix("transfer"), matrix("powertrain"), reference_sizes(), profiled_modes(), steps_per_mode(SHORT_STEPS),
        steps_per_mode(MOBILENET), noises(), prior_widths(), cores(),
    ):  # fmt: skip
        unique.update(cell for cells in study.values() for cell in cells)
    unique.update(Cell("picks", target, seed=SEEDS) for target in (RESNET, MOBILENET, YOLO, BERT, LSTM))
    return sorted(unique, key=lambda cell: (not cell.trains, -cell.seconds, repr(cell)))
