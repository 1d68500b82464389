"""The boards that ship: each loads, agrees with the papers' counts and holds only what its own tables allow."""

from __future__ import annotations

import pytest

from powertrain import devices
from powertrain.devices import Device

BOARDS = devices.names()


@pytest.fixture(params=BOARDS)
def board(request: pytest.FixtureRequest) -> Device:
    return devices.get(request.param)


def test_the_catalogue_holds_the_boards_the_project_promises() -> None:
    assert set(BOARDS) == {
        "nano",
        "orin-agx",
        "orin-agx-11",
        "orin-agx-32gb",
        "orin-agx-super",
        "orin-nano",
        "orin-nano-4",
        "orin-nano-4-super",
        "orin-nano-super",
        "orin-nx-16",
        "orin-nx-16-super",
        "orin-nx-8",
        "orin-nx-8-super",
        "thor",
        "thor-t4000",
        "tx2",
        "tx2-nx",
        "xavier-agx",
        "xavier-nx",
    }


def test_every_board_is_named_after_its_file(board: Device, request: pytest.FixtureRequest) -> None:
    assert board.name == request.node.callspec.params["board"]


@pytest.mark.parametrize(("name", "modes"), [("orin-agx", 18_096), ("xavier-agx", 29_232), ("orin-nano", 1_800)])
def test_the_number_of_modes_is_the_papers(name: str, modes: int) -> None:
    assert len(devices.get(name).space()) == modes


@pytest.mark.parametrize(("name", "modes"), [("orin-agx", 4_368), ("orin-nano", 180)])
def test_the_profiled_part_has_as_many_modes_as_the_authors_measured(name: str, modes: int) -> None:
    profiled = devices.get(name).profiled_space()
    assert profiled is not None
    assert len(profiled) == modes


@pytest.mark.parametrize("name", devices.names())
def test_the_number_of_modes_is_that_of_the_space(name: str) -> None:
    board = devices.get(name)
    assert board.mode_count == len(board.space())


def test_a_board_nobody_profiled_has_no_profiled_part() -> None:
    assert devices.get("xavier-agx").profiled_space() is None


@pytest.mark.parametrize(
    ("name", "cpu", "gpu", "emc"),
    [
        ("nano", 15, 12, 7),
        ("orin-agx", 29, 13, 4),
        ("orin-agx-11", 29, 11, 4),
        ("orin-nano", 20, 5, 3),
        ("orin-nano-super", 22, 8, 4),
        ("orin-nx-16", 26, 7, 4),
        ("tx2", 12, 13, 11),
        ("tx2-nx", 12, 13, 10),
        ("xavier-agx", 29, 14, 9),
        ("xavier-nx", 25, 15, 8),
    ],
)
def test_tables_have_the_published_number_of_steps(name: str, cpu: int, gpu: int, emc: int) -> None:
    tables = devices.get(name).tables
    assert (len(tables.cpu_khz.values), len(tables.gpu_hz.values), len(tables.emc_hz.values)) == (cpu, gpu, emc)


def test_clocks_carry_plausible_magnitudes(board: Device) -> None:
    tables = board.tables
    assert all(100_000 <= khz <= 3_000_000 for khz in tables.cpu_khz.values)
    assert all(50_000_000 <= hz <= 2_000_000_000 for hz in tables.gpu_hz.values)
    assert all(40_000_000 <= hz <= 5_000_000_000 for hz in tables.emc_hz.values)


def test_every_preset_is_a_legal_mode_within_its_caps(board: Device) -> None:
    space = board.space()
    for preset in board.presets:
        mode = board.preset_mode(preset)
        assert mode in space
        assert mode.cores == preset.cores
        for value, cap in ((mode.cpu_khz, preset.cpu_khz), (mode.gpu_hz, preset.gpu_hz), (mode.emc_hz, preset.emc_hz)):
            assert cap is None or value <= cap


def test_an_uncapped_preset_is_the_fastest_mode() -> None:
    board = devices.get("orin-agx")
    assert board.preset_mode(board.presets[0]) == board.space()[-1]


def test_a_cap_between_two_steps_is_kept_as_given_and_taken_as_the_lower_step() -> None:
    board = devices.get("xavier-agx")
    ten_watts = next(preset for preset in board.presets if preset.name == "10W")
    assert (ten_watts.cpu_khz, ten_watts.gpu_hz) == (1_200_000, 520_000_000)
    mode = board.preset_mode(ten_watts)
    assert (mode.cpu_khz, mode.gpu_hz) == (1_190_400, 420_750_000)


def test_preset_labels_are_unique_and_only_maxn_has_no_watts(board: Device) -> None:
    labels = [preset.name for preset in board.presets]
    assert len(set(labels)) == len(labels)
    assert [p.name for p in board.presets if p.watts is None] == [name for name in labels if name.startswith("MAXN")]


@pytest.mark.parametrize(
    ("name", "clusters"),
    [
        ("nano", ((0, 1, 2, 3),)),
        ("orin-nx-16", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("orin-nano", ((0, 1, 2, 3), (4, 5))),
        ("tx2", ((0, 3, 4, 5), (1, 2))),
        ("xavier-nx", ((0, 1), (2, 3), (4, 5))),
    ],
)
def test_clusters_are_the_cpus_that_share_a_clock(name: str, clusters: tuple[tuple[int, ...], ...]) -> None:
    assert devices.get(name).clusters == clusters


@pytest.mark.parametrize("name", ["tx2", "tx2-nx"])
def test_the_tx2_brings_its_a57_cores_up_before_denver(name: str) -> None:
    assert devices.get(name).core_order == (0, 3, 4, 5, 1, 2)


def test_cpu0_comes_first_because_it_never_goes_offline(board: Device) -> None:
    assert board.core_order[0] == 0


def test_only_boards_whose_three_lists_were_seen_are_certain() -> None:
    assert {name for name in BOARDS if devices.get(name).certain} == {
        "orin-agx",
        "orin-agx-11",
        "orin-nano",
        "tx2",
        "xavier-agx",
    }


def test_an_uncertain_board_says_what_is_inferred(board: Device) -> None:
    assert board.certain or "nferred" in board.notes


def test_thor_says_that_it_is_partial() -> None:
    thor = devices.get("thor")
    assert not any(table.certain for _, table in thor.tables)
    assert thor.notes.startswith("Partial")


def test_the_device_tree_ends_in_the_soc_and_the_power_driver_fits_the_kernel(board: Device) -> None:
    tree = board.tree
    assert tree.compatible[-1] == f"nvidia,{board.soc}"
    old_kernel = tree.l4t_release.startswith("R32 ")
    assert tree.qos is not old_kernel
    assert tree.power_driver == ("iio" if old_kernel else "hwmon")


def test_two_modes_of_a_board_never_share_their_short_form(board: Device) -> None:
    tables = board.tables
    for table, unit in ((tables.cpu_khz, 1e6), (tables.gpu_hz, 1e9), (tables.emc_hz, 1e9)):
        assert len({f"{value / unit:.2f}" for value in table.values}) == len(table.values)


def test_an_unknown_board_is_answered_with_the_known_ones() -> None:
    with pytest.raises(devices.UnknownDeviceError) as raised:
        devices.get("orin-agx-65gb")
    message = str(raised.value)
    assert "'orin-agx-65gb'" in message
    assert all(name in message for name in BOARDS)


@pytest.mark.parametrize("name", ["../orin-agx", "orin-agx.toml", ""])
def test_a_path_is_not_a_board(name: str) -> None:
    with pytest.raises(devices.UnknownDeviceError, match="unknown device"):
        devices.get(name)


def test_the_device_tree_names_a_module_of_the_board(board: Device) -> None:
    assert any(module in word for module in board.modules for word in board.tree.compatible)


def test_module_gpu_table_and_release_together_tell_every_board_apart() -> None:
    pages = [devices.get(name) for name in BOARDS]
    keys = [
        (module, page.tables.gpu_hz.values, page.tree.l4t_release.partition(" ")[0])
        for page in pages
        for module in page.modules
    ]
    assert len(set(keys)) == len(keys)
