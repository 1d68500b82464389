"""The shipped reference, the user's own, and which of them is closest."""

from pathlib import Path

import numpy as np
import pytest

from powertrain import devices
from powertrain.profiling.history import History, ModeReport
from powertrain.reference import SHIPPED, Reference, ReferenceError, available, closest, shipped, train_reference
from powertrain.reference.catalogue import misfit
from powertrain.samples import SampleTable
from powertrain.space import ModeSpace

from .conftest import made_up_table


def reference(device: str, workload: str, cpu_share: float) -> Reference:
    return train_reference(made_up_table(cpu_share), device, workload, with_network=False)


@pytest.fixture(scope="module")
def gpu_bound() -> Reference:
    return reference("orin-agx", "gpu-bound", 0.05)


@pytest.fixture(scope="module")
def cpu_bound() -> Reference:
    return reference("orin-agx", "cpu-bound", 0.9)


def history(table: SampleTable, count: int) -> History:
    history_so_far = History.of(ModeSpace.covering(table.matrix))
    for row in np.random.default_rng(0).permutation(len(table))[:count]:
        sample = table.sample(int(row))
        history_so_far = history_so_far.add(ModeReport(sample.mode, sample.mode, sample))
    return history_so_far


def test_the_shipped_reference_is_resnet_on_orin_agx() -> None:
    reference = shipped()
    assert (reference.card.device, reference.card.workload, reference.card.rows) == ("orin-agx", "resnet18", 4368)
    assert reference.has_network
    assert reference.physics.rows == 4368


def test_the_shipped_reference_is_small() -> None:
    folder = Path(devices.__file__).parents[1] / "reference" / "shipped" / "orin-agx-resnet18"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2_000_000


@pytest.mark.torch
def test_the_shipped_networks_predict_the_whole_board() -> None:
    prediction = shipped().network().predict(devices.get("orin-agx").space().matrix)
    assert len(prediction) == 18096
    assert (prediction.time_s > 0).all()
    # The most that the paper saw of this workload is 51 W, the least 12 W.
    assert 8 < prediction.power_w.min() < prediction.power_w.max() < 60


def test_user_references_stand_beside_the_shipped_one(
    gpu_bound: Reference, cpu_bound: Reference, tmp_path: Path
) -> None:
    gpu_bound.save(tmp_path / "many" / "a")
    cpu_bound.save(tmp_path / "many" / "b")
    gpu_bound.save(tmp_path / "single")
    references = available([SHIPPED, tmp_path / "many", tmp_path / "single"])
    names = [item.card.workload for item in references.references]
    assert names == ["resnet18", "gpu-bound", "cpu-bound", "gpu-bound"]
    assert references.problems == ()


def test_a_damaged_reference_does_not_hide_the_others(gpu_bound: Reference, tmp_path: Path) -> None:
    gpu_bound.save(tmp_path / "good")
    gpu_bound.save(tmp_path / "bad")
    (tmp_path / "bad" / "physics.npz").unlink()
    references = available([SHIPPED, tmp_path, tmp_path / "empty"])
    assert [item.card.workload for item in references.references] == ["resnet18", "gpu-bound"]
    assert [
        str(tmp_path / name) in problem for name, problem in zip(("bad", "empty"), references.problems, strict=True)
    ]


def test_damaged_arrays_do_not_hide_the_others(gpu_bound: Reference, tmp_path: Path) -> None:
    gpu_bound.save(tmp_path / "good")
    gpu_bound.save(tmp_path / "torn")
    (tmp_path / "torn" / "physics.npz").write_bytes(b"half of a file")
    references = available([tmp_path])
    assert [item.card.workload for item in references.references] == ["gpu-bound"]
    assert "is damaged" in references.problems[0]


def test_where_networks_are_needed_a_reference_without_them_is_passed_over(gpu_bound: Reference) -> None:
    assert closest([gpu_bound, shipped()], "orin-agx", None).card.workload == "gpu-bound"
    assert closest([gpu_bound, shipped()], "orin-agx", None, with_network=True).card.workload == "resnet18"
    assert closest([gpu_bound], "orin-agx", None, with_network=True) is gpu_bound


def test_the_same_device_comes_before_a_better_fit(gpu_bound: Reference) -> None:
    other_board = reference("xavier-agx", "like-the-new-one", 0.9)
    history_so_far = history(made_up_table(0.9), 10)
    assert misfit(other_board, history_so_far) < misfit(gpu_bound, history_so_far)
    assert closest([other_board, gpu_bound], "orin-agx", history_so_far) is gpu_bound


@pytest.mark.parametrize(("cpu_share", "workload"), [(0.1, "gpu-bound"), (0.8, "cpu-bound")])
def test_of_one_device_the_reference_that_explains_the_samples_wins(
    cpu_share: float, workload: str, gpu_bound: Reference, cpu_bound: Reference
) -> None:
    history_so_far = history(made_up_table(cpu_share), 8)
    assert closest([gpu_bound, cpu_bound], "orin-agx", history_so_far).card.workload == workload


def test_how_fast_a_workload_is_does_not_decide(gpu_bound: Reference, cpu_bound: Reference) -> None:
    table = made_up_table(0.1)
    slow = SampleTable(table.matrix, table.batch_size, table.step_s * 30, table.power_w)
    assert closest([gpu_bound, cpu_bound], "orin-agx", history(slow, 8)) is gpu_bound


def test_before_enough_is_measured_the_name_decides(gpu_bound: Reference, cpu_bound: Reference) -> None:
    assert closest([gpu_bound, cpu_bound], "orin-agx") is cpu_bound
    assert closest([gpu_bound, cpu_bound], "orin-agx", history(made_up_table(0.05), 2)) is cpu_bound


def test_an_unknown_device_considers_all(gpu_bound: Reference, cpu_bound: Reference) -> None:
    history_so_far = history(made_up_table(0.05), 8)
    assert closest([cpu_bound, gpu_bound], None, history_so_far) is gpu_bound


def test_no_reference_at_all_is_an_error() -> None:
    with pytest.raises(ReferenceError, match="no reference to choose from"):
        closest([], "orin-agx")
