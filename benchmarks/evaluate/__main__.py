"""`make evaluate`: computes the whole study, draws its figures and writes its tables into docs/evaluation.

    python -m benchmarks.evaluate [--data DIR] [--jobs 2] [--only TEXT] [--fresh] [--pages DIR]

Stop it at any time: finished cells are kept in build/evaluate and a second run goes on where the first ended.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

# Before numpy and torch are imported: their threads only get in each other's way, and figures must not depend on them.
os.environ["OMP_NUM_THREADS"] = "1"

from benchmarks.evaluate import workers
from benchmarks.evaluate.cache import ROOT, Cache
from benchmarks.evaluate.plan import Cell, all_cells
from benchmarks.evaluate.tables import SIMULATED, Store
from benchmarks.evaluate.work import timed
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

BESIDE = ROOT.parent / "shared" / "data"
WORK = ROOT / "build" / "evaluate"
PAGES = ROOT / "docs" / "evaluation"
LINES = 20  # progress lines where there is no terminal


def main(options: argparse.Namespace) -> int:
    """Compute what is not computed yet, then draw and write."""
    started = time.monotonic()
    store = Store(options.data, WORK / "references")
    if options.fresh:
        shutil.rmtree(WORK, ignore_errors=True)
    selection = [cell for cell in all_cells() if options.only in repr(cell)]
    cells = [cell for cell in selection if not missing_tables(cell, store)]
    absent = sorted({file for cell in selection for file in missing_tables(cell, store)})
    if absent:
        say_what_is_missing(selection, absent, store)
    cache = Cache(WORK / "cells", store)
    results = {cell: cache.get(cell) for cell in cells}
    todo = [cell for cell, result in results.items() if result is None]
    print(f"{len(cells)} cells, {len(cells) - len(todo)} of them finished before; {options.jobs} processes", flush=True)
    spent_s: Counter[str] = Counter()
    for cell, result, cell_s in computed(todo, store, options.jobs):
        cache.put(cell, result)
        results[cell] = result
        spent_s["references" if cell.trains else cell.strategy] += cell_s
    wall_s, cpu_s = time.monotonic() - started, sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    print(f"computed {len(todo)} cells in {wall_s / 60:.1f} min, {cpu_s / 60:.1f} min of processor time", flush=True)
    if spent_s:
        print("by strategy: " + ", ".join(f"{name} {taken_s / 60:.1f}" for name, taken_s in spent_s.most_common()))
    if options.only:
        print("only a part was computed (--only): no pages are written")
        return 0
    from benchmarks.evaluate.pages import write_pages

    pages = options.pages or (PAGES if not absent else WORK / "pages")
    write_pages(results, store, PAGES, pages)
    print(f"tables and figures in {pages.relative_to(ROOT) if pages.is_relative_to(ROOT) else pages}")
    return 0


def missing_tables(cell: Cell, store: Store) -> list[str]:
    """Return the files that a cell needs and that are not here."""
    needs = [cell.target, cell.reference]
    if cell.kind == "picks":
        needs += ["resnet18", "lstm"]
    return [file for file in map(store.missing, needs) if file is not None]


def say_what_is_missing(selection: Sequence[Cell], absent: Sequence[str], store: Store) -> None:
    """Say which rows need a table that is not shipped, and how to bring one's own."""
    lost = [cell for cell in selection if missing_tables(cell, store)]
    print(f"Measured tables are not part of this repository. Not found in {store.data}:")
    for file in absent:
        targets = {cell.target for cell in lost if file in missing_tables(cell, store)}
        own = {target for target in targets if store.missing(target) == file}
        others = {target.split(":")[2] if target.startswith(SIMULATED) else target for target in targets - own}
        also = f", and as a reference by some rows of {', '.join(sorted(others))}" if others else ""
        print(f"  {file}: needed by the rows of {', '.join(sorted(own))}{also}")
    print(
        f"{len(lost)} of {len(selection)} cells are left out: their rows read 'no data here', simulated ones stay.\n"
        "Bring your own: measure as docs/how-to/measure-a-table.md says, name the files as above, and give their\n"
        "folder with --data DIR or POWERTRAIN_DATA. Until then pages go to build/evaluate/pages, and docs/evaluation\n"
        "stays as it is."
    )


def computed(cells: Sequence[Cell], store: Store, jobs: int) -> Iterator[tuple[Cell, Any, float]]:
    """Yield cells with results and processor seconds as they finish; references come before what starts from them."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=console) as bar, workers.pool(jobs) as pool:
        total_s, done_s = sum(cell.seconds for cell in cells), 0.0
        task = bar.add_task("evaluating", total=total_s)
        for group in ([c for c in cells if c.trains], [c for c in cells if not c.trains]):
            running: dict[Future[Any], Cell] = {pool.submit(timed, cell, store): cell for cell in group}
            try:
                while running:
                    finished, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in finished:
                        cell = running.pop(future)
                        before_s, done_s = done_s, done_s + cell.seconds
                        bar.update(task, completed=done_s, description=f"{cell.strategy} → {cell.target}")
                        if not console.is_terminal and int(done_s * LINES / total_s) > int(before_s * LINES / total_s):
                            print(f"{100 * done_s / total_s:.0f} % of the work", file=sys.stderr, flush=True)
                        yield cell, *future.result()
            finally:
                for future in running:
                    future.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluate", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POWERTRAIN_DATA", BESIDE)))
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--only", default="", help="only cells whose description holds this text; writes no pages")
    parser.add_argument("--fresh", action="store_true", help="forget what was computed before")
    parser.add_argument("--pages", type=Path, help="where pages and figures go (docs/evaluation)")
    try:
        sys.exit(main(parser.parse_args()))
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from here")
