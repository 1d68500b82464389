"""`powertrain batch-study` runs real trainings of this machine and turns what they report into r."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from powertrain.modes import PowerMode

# Needs more samples at larger batches; the largest never learns. Counts steps through the real SDK.
TRAINING = """
import os, sys
import powertrain_sdk as powertrain
size, seed = powertrain.batch_size(1), int(os.environ["POWERTRAIN_SEED"])
if len(sys.argv) > 1 and os.path.exists(sys.argv[1]) and size == 8:
    sys.exit("no data")
accuracy = 0.0
while not powertrain.reached(accuracy):
    powertrain.step()
    accuracy += 0.0 if size == 64 else size / (1000.0 + 20 * size + 10 * seed)
"""


@pytest.fixture
def training(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    return path


def options(out: Path, sizes: str = "8,32") -> list[str]:
    return [
        "batch-study", "run", "--out", str(out), "--batch-sizes", sizes, "--target-accuracy", "0.9",
        "--learning-rate", "1e-3", "--seeds", "2", "--max-samples", "6000", "--jobs", "2",
    ]  # fmt: skip


def test_a_study_writes_n_acc_and_r_and_shows_what_did_not_converge(powertrain, training: Path, tmp_path: Path) -> None:
    out = tmp_path / "toy.json"
    result = powertrain(*options(out, "8,32,64"), "--json", "--", str(training))
    assert result.code == 0
    document = json.loads(result.out)
    assert document == json.loads(out.read_text())
    assert 0 < document["r"]["8"] < document["r"]["32"] == 1
    assert document["spread"]["8"] > 0
    assert document["missing"] == {"64": "2 of 2 runs did not reach the target within the cap"}
    assert "batch size 64, seed 0: not reached within 6000 samples" in " ".join(result.err.split())
    show_result = powertrain("batch-study", "show", out)
    assert show_result.code == 0
    assert "did not reach" in show_result.out


def test_an_interrupted_or_failed_study_goes_on_where_it_stopped(powertrain, training: Path, tmp_path: Path) -> None:
    out, broken = tmp_path / "toy.json", tmp_path / "broken"
    broken.touch()
    command = [*options(out), "--", str(training), str(broken)]
    first = powertrain(*command)
    assert first.code == 0
    assert "no data" in first.err
    before = json.loads(out.read_text())
    assert before["missing"]["8"].startswith("all 2 runs failed")
    broken.unlink()
    second = powertrain(*command)
    assert second.code == 0
    after = json.loads(out.read_text())
    assert set(after["r"]) == {"8", "32"}
    assert [r for r in after["runs"] if r["batch_size"] == 32] == [r for r in before["runs"] if r["batch_size"] == 32]


def test_another_study_is_not_overwritten(powertrain, training: Path, tmp_path: Path) -> None:
    out = tmp_path / "toy.json"
    assert powertrain(*options(out), "--", str(training)).code == 0
    other = powertrain(*options(out, "8,16"), "--", str(training))
    assert other.code == 2
    assert "holds another study" in other.err


def test_nothing_that_reaches_the_target_is_no_solution(powertrain, training: Path, tmp_path: Path) -> None:
    result = powertrain(*options(tmp_path / "toy.json", "64"), "--", str(training))
    assert result.code == 1
    assert "no batch size has reached the target of 0.9" in " ".join(result.err.split())


def study(folder: Path, name: str, needed: dict[int, int]) -> Path:
    """Write the file of a finished study."""
    spec = {
        "name": name, "batch_sizes": list(needed), "seeds": 1, "target_accuracy": 0.9, "learning_rate": 1e-3,
        "at_batch_size": 64, "scaling": "Sqrt", "max_samples": 10**6, "unit_samples": None, "data_samples": None,
        "command": [],
    }  # fmt: skip
    runs = [{"batch_size": b, "seed": 0, "outcome": "Reached", "samples": n} for b, n in needed.items()]
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"version": 1, "spec": spec, "runs": runs}))
    return path


def test_the_matrix_has_a_value_for_each_proxy_target_and_limit(powertrain, tmp_path: Path) -> None:
    files = [
        study(tmp_path, "a", {8: 1000, 64: 1500}),
        study(tmp_path, "b", {8: 1000, 64: 1100}),
        study(tmp_path, "c", {8: 400, 64: 4000}),
    ]
    picture = tmp_path / "matrix.png"
    board = ("--simulate", "nano", "--workload", "mobilenet-v2", "--limits", "4.5,none", "--plot", picture)
    result = powertrain("batch-study", "matrix", *files, *board, "--json")
    assert result.code == 0
    limits = json.loads(result.out)["limits"]
    assert set(limits) == {"4.5 W", "none"}
    assert all(limits["none"][name][name] == 0 for name in "abc")
    assert limits["none"]["b"]["c"] > 50
    assert picture.stat().st_size > 10_000
    matrix_result = powertrain("batch-study", "matrix", *files, *board)
    assert "proxy" in matrix_result.out


def test_studies_of_different_batch_sizes_make_a_matrix_and_an_empty_one_is_named(powertrain, tmp_path: Path) -> None:
    files = [study(tmp_path, "a", {8: 1000, 16: 500, 64: 1500}), study(tmp_path, "b", {8: 1000, 64: 1100})]
    board = ("--simulate", "nano", "--workload", "mobilenet-v2")
    result = powertrain("batch-study", "matrix", *files, *board, "--json")
    assert json.loads(result.out)["limits"]["none"]["b"]["b"] == 0
    alone = study(tmp_path, "large", {128: 1000, 256: 900})
    refused = powertrain("batch-study", "matrix", files[0], alone, *board)
    assert refused.code == 2
    assert "the table has no batch size of ['large']" in " ".join(refused.err.split())


def test_the_baselines_of_a_simulated_board_take_clocks_that_are_safe_for_any_workload(
    powertrain, tmp_path: Path
) -> None:
    files = [study(tmp_path, name, {8: 1000, 64: 900}) for name in "ab"]
    board = ("--simulate", "nano", "--workload", "char-transformer", "--limits", "4.5,7,none")
    result = powertrain("batch-study", "compare", *files, *board, "--plan", "largest-batch", "--json")
    clocks = [PowerMode.parse(score["mode"]).gpu_hz // 10**6 for score in json.loads(result.out)["results"]]
    assert clocks == [307, 614, 921]


def test_a_batch_that_the_board_has_no_room_for_is_left_out_and_named(powertrain, tmp_path: Path) -> None:
    files = [study(tmp_path, name, {8: 1000, 64: 900, 128: 100}) for name in "ab"]
    board = ("--simulate", "nano", "--workload", "mobilenet-v2")
    compared = powertrain("batch-study", "compare", *files, *board, "--plan", "fastest", "--json")
    assert json.loads(compared.out)["results"][0]["batch_size"] == 64
    assert "batch sizes [128] do not fit into the memory" in " ".join(compared.err.split())
    assert powertrain("batch-study", "matrix", *files, *board).code == 0


def test_plans_are_compared_by_time_and_energy_to_accuracy(powertrain, tmp_path: Path) -> None:
    proxy = study(tmp_path, "proxy", {8: 1000, 32: 900, 64: 1500})
    target = study(tmp_path, "target", {8: 2200, 32: 2000, 64: 2900})
    board = ("--simulate", "nano", "--workload", "mobilenet-v2", "--limits", "4.5,none", "--plan", "staircase")
    options = (*board, "--plan", "largest-batch", "--plan", "fastest")
    result = powertrain("batch-study", "compare", proxy, target, *options, "--json")
    assert result.code == 0
    scores = json.loads(result.out)["results"]
    assert [score["plan"] for score in scores] == ["staircase", "largest-batch", "fastest"] * 2
    assert scores[0]["time_s"] <= scores[1]["time_s"]
    assert scores[0]["energy_j"] > 0
    assert scores[0]["peak_w"] <= 4.5
    compare_result = powertrain("batch-study", "compare", proxy, target, *options)
    assert "largest" in compare_result.out
    wrong = powertrain("batch-study", "compare", proxy, target, *board, "--plan", "magic")
    assert wrong.code == 2
    assert "unknown plans ['magic']" in " ".join(wrong.err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either --table, or --simulate"),
        (("--simulate", "nano"), "--simulate needs --workload"),
        (("--simulate", "nano", "--workload", "vgg"), "unknown workload 'vgg'"),
        (("--simulate", "nano", "--workload", "mobilenet-v2", "--limits", "low"), "--limits takes watts"),
    ],
)
def test_what_the_matrix_lacks_is_said(powertrain, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = powertrain("batch-study", "matrix", study(tmp_path, "a", {8: 10}), *arguments)
    assert result.code == 2
    assert message in " ".join(result.err.split())


def test_a_missing_study_says_how_to_make_one(powertrain, tmp_path: Path) -> None:
    result = powertrain("batch-study", "show", tmp_path / "none.json")
    assert result.code == 2
    assert "powertrain batch-study run" in " ".join(result.err.split())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "is not a study"),
        ("{}", "a study of version None"),
        ("half", "is not a study"),
        (None, "is a folder"),
    ],
)
def test_what_is_no_study_is_said_in_one_line(powertrain, tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "study.json"
    path.mkdir() if content is None else path.write_text(content)
    result = powertrain("batch-study", "show", path)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {path}")
    assert words in result.err
    assert len(result.err.splitlines()) == 1
