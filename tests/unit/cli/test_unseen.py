"""`powertrain evaluate --unseen-batch-sizes` scores the batch sizes that were not profiled."""

from __future__ import annotations

import json

import numpy as np
import pytest

from powertrain.sample_csv import write_csv


@pytest.fixture
def sizes_csv(tmp_path, batch_table):
    """Return a part of the modes at five batch sizes."""
    path = tmp_path / "sizes.csv"
    with path.open("w", encoding="utf-8") as stream:
        write_csv(batch_table.take(np.arange(0, len(batch_table), 4)), stream)
    return str(path)


def test_the_document_names_what_was_profiled_and_scores_the_rest(powertrain, sizes_csv):
    options = ("--unseen-batch-sizes", "--samples", "9", "--seeds", "1")
    result = powertrain("evaluate", "--target", sizes_csv, *options, "--json")
    assert result.code == 0
    document = json.loads(result.out)
    assert document["results"][0]["profiled"] == [1, 16, 64]
    assert [r["batch_size"] for r in document["results"] if r["strategy"] == "transfer"][2:] == [4, 32]
    table = powertrain("evaluate", "--target", sizes_csv, *options)
    assert "profiled at 1, 16, 64" in " ".join(table.out.split())


def test_a_table_of_two_sizes_has_nothing_to_score(powertrain, two_sizes):
    result = powertrain("evaluate", "--target", two_sizes, "--unseen-batch-sizes")
    assert result.code == 2
    assert "at least 4 are needed" in " ".join(result.err.split())
