"""Tidy CSV: what is read, what is refused and how that is said."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain import ModeSpace, PowerMode, devices
from powertrain.sample_csv import COLUMNS, TableError, read_csv, write_csv
from powertrain.samples import Sample, SampleTable

HEADER = "cpu_cores,cpu_khz,gpu_hz,emc_hz,batch_size,time_ms,power_w"
ROW = "4,422400,114750000,665600000,16,82.1211,14.509"
WriteTable = Callable[[str | bytes], Path]
OTHER = "12,2201600,1300500000,3199000000,16,10,40"


@pytest.fixture
def table_file(tmp_path: Path) -> WriteTable:
    """Return a function that writes a file and returns its path."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "table.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_a_table_is_read_in_base_units(table_file: WriteTable) -> None:
    table = read_csv(table_file(f"{HEADER}\n{ROW}\n{OTHER}\n"))
    assert list(table) == [
        Sample(PowerMode(4, 422_400, 114_750_000, 665_600_000), 0.0821211, 14.509, 16),
        Sample(PowerMode(12, 2_201_600, 1_300_500_000, 3_199_000_000), 0.01, 40.0, 16),
    ]
    assert table.warnings == ()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(f"\ufeff{HEADER}\n{ROW}\n", id="byte order mark"),
        pytest.param(f"{HEADER}\r\n{ROW}\r\n", id="CRLF"),
        pytest.param(f"{HEADER}\r{ROW}\r", id="CR"),
        pytest.param(f"{HEADER}\n{ROW}", id="no newline at the end"),
        pytest.param(f"\n{HEADER}\n\n{ROW}\n\n,,\n\n", id="blank lines"),
        pytest.param(f"{HEADER.replace(',', ' , ')}\n{ROW.replace(',', ' , ')}\n", id="spaces"),
        pytest.param(f'"{HEADER.replace(",", chr(34) + "," + chr(34))}"\n{ROW}\n', id="quotes"),
        pytest.param(f"{','.join(HEADER.split(',')[::-1])}\n{','.join(ROW.split(',')[::-1])}\n", id="column order"),
        pytest.param(f"{HEADER}\n{ROW.replace('16', '1.6e1')}\n", id="exponents"),
    ],
)
def test_harmless_differences_of_form_are_read(table_file: WriteTable, content: str) -> None:
    table = read_csv(table_file(content))
    assert [str(sample.mode) for sample in table] == ["4c_422400_114750000_665600000"]
    assert table.batch_size.tolist() == [16]
    assert table.power_w.tolist() == [14.509]


def test_extra_columns_are_kept_as_text(table_file: WriteTable) -> None:
    path = table_file(f"note,{HEADER},fan\n  as is,{ROW},\n")
    assert read_csv(path).extra == {"note": ["  as is"], "fan": [""]}


def test_peaks_are_read_and_may_be_missing_in_some_rows(table_file: WriteTable) -> None:
    table = read_csv(table_file(f"{HEADER},power_peak_w\n{ROW},15.5\n{OTHER},\n"))
    assert [sample.power_peak_w for sample in table] == [15.5, None]


def test_a_peak_column_without_values_is_no_peak_column(table_file: WriteTable) -> None:
    assert read_csv(table_file(f"{HEADER},power_peak_w\n{ROW},\n")).power_peak_w is None


def test_repeated_modes_are_merged_to_their_median_and_said(table_file: WriteTable) -> None:
    rows = [
        f"4,422400,114750000,665600000,16,{ms},{w},{peak},{note}"
        for ms, w, peak, note in ((80, 14, 20, "first"), (90, 15, "", "second"), (200, 13, 22, "third"))
    ]
    path = table_file("\n".join([f"{HEADER},power_peak_w,note", rows[0], f"{OTHER},41,o", rows[1], rows[2]]))
    table = read_csv(path)
    assert table.step_s.tolist() == pytest.approx([0.09, 0.01])
    assert table.power_w.tolist() == [14, 40]
    assert table.power_peak_w is not None
    assert table.power_peak_w.tolist() == [21, 41]
    assert table.extra == {"note": ["first", "o"]}
    assert table.warnings == (
        f"{path}: 1 mode stands there more than once at one batch size (lines 2, 4, 5): the median is kept",
    )


def test_many_repeated_modes_are_counted_and_one_is_shown(table_file: WriteTable) -> None:
    table = read_csv(table_file("\n".join([HEADER, OTHER, ROW, OTHER, OTHER, OTHER, ROW])))
    assert "2 modes stand there more than once at one batch size (for example lines 2, 4, 5, …)" in table.warnings[0]
    assert len(table) == 2


def test_one_mode_at_two_batch_sizes_is_not_a_repeat(table_file: WriteTable) -> None:
    table = read_csv(table_file(f"{HEADER}\n{ROW}\n{ROW.replace(',16,', ',32,')}\n"))
    assert table.batch_sizes() == [16, 32]
    assert table.warnings == ()


def test_frequencies_that_the_device_lacks_are_kept_and_said(table_file: WriteTable) -> None:
    odd = "4,422401,114750000,665600000,16,82.1211,14.509"
    path = table_file(f"{HEADER}\n{ROW}\n{odd}\n")
    table = read_csv(path, devices.get("orin-agx").space())
    assert len(table) == 2
    [warning] = table.warnings
    assert warning.startswith(f"{path}: cpu_khz 422401 is not in the device's table (115200, 192000")
    assert read_csv(path).warnings == ()


def test_many_unknown_values_are_shortened(table_file: WriteTable) -> None:
    rows = [f"{cores},422400,114750000,665600000,16,1,1" for cores in range(1, 9)]
    space = ModeSpace.grid([1], [422_400], [114_750_000], [665_600_000])
    [warning] = read_csv(table_file("\n".join([HEADER, *rows])), space).warnings
    assert "cpu_cores 2, 3, 4, 5, 6, … is not in" in warning


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", ": is empty; the first line must be " + HEADER, id="empty"),
        pytest.param("\n \n", ": is empty; the first line must be " + HEADER, id="blank"),
        pytest.param("\ufeff", ": is empty; the first line must be " + HEADER, id="byte order mark alone"),
        pytest.param(HEADER + "\n", ": has a header but no rows", id="header alone"),
        pytest.param(ROW + "\n", ", line 1: no column cpu_cores, cpu_khz", id="no header"),
        pytest.param(
            f"{HEADER[:-8]}\n1,1,1,1,1,1\n", f", line 1: no column power_w; a table needs {HEADER}", id="column missing"
        ),
        pytest.param(
            f"{HEADER.replace(',', ';')}\n{ROW.replace(',', ';')}\n",
            "separate columns by commas, not by ';'",
            id="semicolons",
        ),
        pytest.param(f"{HEADER}\n{ROW}\n".replace(",", "\t"), r"not by '\t'", id="tabs"),
        pytest.param(
            f"{HEADER},time_ms\n{ROW},3\n", ", line 1: column 'time_ms' stands there more than once", id="twice"
        ),
        pytest.param(f"{HEADER},,\n{ROW},,\n", ", line 1: column '' stands there more than once", id="nameless twice"),
        pytest.param(f"{HEADER}\n{ROW}\n{ROW},7\n", ", line 3: 8 cells, but the header has 7 columns", id="long row"),
        pytest.param(f"{HEADER}\n\n4,422400\n", ", line 3: 2 cells, but the header has 7 columns", id="short row"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0", ", line 1: is not UTF-8 text", id="binary"),
        pytest.param(
            f"{HEADER}\n".encode() + f"{ROW}\n".encode() * 9000 + b"\xff",
            ", line 9002: is not UTF-8",
            id="binary later",
        ),
        pytest.param(HEADER.encode("utf-16"), ", line 1: is not UTF-8 text", id="UTF-16"),
        pytest.param(b"\0" * 100, ", line 1: no column cpu_cores", id="zeros"),
        pytest.param(f'{HEADER}\n{ROW}\n"{"x" * 200_000}"\n', ", line 3: is not a CSV file", id="huge cell"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_place(
    table_file: WriteTable, content: str | bytes, message: str
) -> None:
    path = table_file(content)
    with pytest.raises(TableError, match=re.escape(str(path)) + ".*" + re.escape(message)):
        read_csv(path)


@pytest.mark.parametrize("column", [*COLUMNS, "power_peak_w"])
@pytest.mark.parametrize(
    "cell", ["NaN", "nan", "inf", "-inf", "0", "0.0", "-3", "fast", "1_000", "0x10", "1,5", "1e999"]
)
def test_a_cell_that_is_no_measurement_is_refused_with_its_place(
    table_file: WriteTable, column: str, cell: str
) -> None:
    cells = dict(zip([*COLUMNS, "power_peak_w"], [*ROW.split(","), "20"], strict=True))
    bad = {**cells, column: f'"{cell}"'}
    path = table_file("\n".join([",".join(cells), ",".join(cells.values()), ",".join(bad.values())]))
    with pytest.raises(TableError) as error:
        read_csv(path)
    assert str(error.value).startswith(f"{path}, line 3, column {column}: {cell!r} is not a ")


@pytest.mark.parametrize("column", COLUMNS)
def test_an_empty_cell_is_refused(table_file: WriteTable, column: str) -> None:
    cells = {**dict(zip(COLUMNS, ROW.split(","), strict=True)), column: " "}
    with pytest.raises(TableError, match=f"line 2, column {column}: '' is not a number"):
        read_csv(table_file(f"{HEADER}\n{','.join(cells.values())}\n"))


@pytest.mark.parametrize(
    ("column", "cell", "most"),
    [
        ("cpu_cores", "4.5", 999),
        ("cpu_cores", "1000", 999),
        ("gpu_hz", "1e12", 10**12 - 1),
        ("batch_size", "2e9", 10**9),
    ],
)
def test_modes_and_batch_sizes_are_whole_numbers(table_file: WriteTable, column: str, cell: str, most: int) -> None:
    cells = {**dict(zip(COLUMNS, ROW.split(","), strict=True)), column: cell}
    with pytest.raises(TableError, match=f"line 2, column {column}: '{cell}' is not a whole number from 1 to {most}"):
        read_csv(table_file(f"{HEADER}\n{','.join(cells.values())}\n"))


def test_a_missing_file_a_folder_and_an_impossible_path_are_said(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"nothing\.csv: no such file"):
        read_csv(tmp_path / "nothing.csv")
    with pytest.raises(TableError, match="is a folder, not a CSV file"):
        read_csv(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(TableError, match=r"can't be read \(Not a directory\)"):
        read_csv(tmp_path / "file" / "x.csv")


figures = st.floats(1e-6, 1e4)
samples = st.builds(
    Sample,
    mode=st.builds(PowerMode, *(st.integers(1, most) for most in (999, 10**7, 10**10, 10**10))),
    step_s=figures,
    power_w=figures,
    batch_size=st.integers(1, 10**6),
    power_peak_w=st.none() | figures,
)


@given(st.lists(samples, min_size=1, max_size=8, unique_by=lambda sample: (sample.mode, sample.batch_size)))
def test_what_was_written_reads_back(tmp_path_factory: pytest.TempPathFactory, rows: list[Sample]) -> None:
    path = tmp_path_factory.getbasetemp() / "written.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        write_csv(SampleTable.of(rows), stream)
    table = read_csv(path)
    assert [sample.mode for sample in table] == [row.mode for row in rows]
    assert table.batch_size.tolist() == [row.batch_size for row in rows]
    np.testing.assert_allclose(table.step_s, [row.step_s for row in rows], rtol=1e-9)
    np.testing.assert_allclose(table.power_w, [row.power_w for row in rows], rtol=1e-9)
    peaks = [np.nan if row.power_peak_w is None else row.power_peak_w for row in rows]
    np.testing.assert_allclose([s.power_peak_w or np.nan for s in table], peaks, rtol=1e-9)


def test_extra_columns_with_commas_and_quotes_are_written_so_that_they_read_back(tmp_path: Path) -> None:
    table = SampleTable(
        np.ones((1, 4)), np.ones(1, dtype=np.int64), np.ones(1), np.ones(1), extra={"a,b": ['say "x", y']}
    )
    stream = io.StringIO()
    write_csv(table, stream)
    path = tmp_path / "x.csv"
    path.write_text(stream.getvalue())
    assert read_csv(path).extra == table.extra
