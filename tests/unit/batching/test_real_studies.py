"""Real trainings: r of a proxy data set chooses for another as its own would, on a simulated Nano at every limit.

The set-up is the second paper's: pre-trained on one data set, r from a second, applied to a third.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from powertrain import devices
from powertrain.batching import BatchTable, Scaling
from powertrain.batching.study import Outcome, Study, StudyRun, StudySpec, mean_needed
from powertrain.evaluation.batch_plans import proxy_matrix
from powertrain.modes import PowerMode
from powertrain_agent.simulate import batches

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "batch_study"
LIMITS = (4.5, 7.0, None)
WORST_PCT = 10.0  # the paper's own worst case, rounded
CAP = 15360


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch", reason="needs the nn extra")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"powertrain_example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def study(training: ModuleType, data: str, target: float, rate: float, sizes: tuple[int, ...], seeds: int) -> Study:
    """Train every batch size and seed until the target."""
    new_study = Study(StudySpec(data, sizes, seeds, target, rate, max(sizes), Scaling.SQRT, max_samples=CAP))
    for batch_size, seed in new_study.pending():
        accuracies: list[float] = []

        def reached(accuracy: float, so_far: list[float] = accuracies) -> bool:
            so_far.append(accuracy)
            return accuracy >= target or len(so_far) * training.EVALUATE_EVERY >= CAP

        training.fine_tune(data, batch_size, new_study.spec.rate(batch_size), seed, reached)
        outcome = Outcome.REACHED if accuracies[-1] >= target else Outcome.CAP_REACHED
        samples = len(accuracies) * training.EVALUATE_EVERY
        new_study = new_study.add(StudyRun(batch_size, seed, outcome, samples, accuracies[-1]))
    return new_study


def nano(workload: str, sizes: tuple[int, ...]) -> BatchTable:
    tables = devices.get("nano").tables
    cpu_khz, emc_hz = tables.cpu_khz.values[-1], tables.emc_hz.values[-1]
    modes = [PowerMode(4, cpu_khz, gpu_hz, emc_hz) for gpu_hz in tables.gpu_hz.values]
    return BatchTable.of(batches.measured("nano", workload, sizes, modes))


def check(proxy: Study, target: Study, workload: str) -> None:
    for study in (proxy, target):
        assert not study.missing()
        r = study.relation().r
        assert max(r.values()) == 1
        assert all(0 < value <= 1 for value in r.values())
    studies = {study.spec.name: mean_needed(study) for study in (proxy, target)}
    matrix = proxy_matrix(nano(workload, proxy.spec.batch_sizes), studies, LIMITS)
    over = {limit: cells[proxy.spec.name][target.spec.name] for limit, cells in matrix.items()}
    assert max(over.values()) <= WORST_PCT, (over, studies)


def test_r_of_generated_images_chooses_for_handwritten_digits_with_five_seeds() -> None:
    training, sizes = example("images"), (16, 32, 64, 128)
    proxy = study(training, "blobs", 0.8, 1e-2, sizes, 5)
    target = study(training, "digits", 0.9, 1e-2, sizes, 5)
    check(proxy, target, "resnet18-cifar")
    assert target.relation().r[16] < 0.7  # small batches really need fewer samples here


def test_r_of_one_text_chooses_for_another_with_three_seeds() -> None:
    training, sizes = example("characters"), (16, 32, 64)
    proxy = study(training, "docstrings", 0.33, 8e-3, sizes, 3)
    target = study(training, "comments", 0.36, 8e-3, sizes, 3)
    check(proxy, target, "char-transformer")


def test_the_command_line_counts_the_samples_of_a_real_training(tmp_path: Path) -> None:
    from powertrain_cli.study_runner import run_study

    spec = StudySpec(
        "digits",
        (64,),
        1,
        0.9,
        1e-2,
        128,
        max_samples=30000,
        command=(sys.executable, str(EXAMPLES / "images.py"), "digits"),
    )
    runs: list[StudyRun] = []
    ended = run_study(Study(spec), tmp_path / "digits.json", 1, 300.0, runs.append)
    assert [run.outcome for run in runs] == [Outcome.REACHED]
    assert 3000 < ended.needed()[64][0] < 12000
    assert json.loads((tmp_path / "digits.json").read_text())["r"] == {"64": 1.0}
