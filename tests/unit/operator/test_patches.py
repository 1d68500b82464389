"""Merge patches: what is sent makes the one document of the other, and is small where little is new."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powertrain_kube.patches import difference, patched

VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_a_document_becomes_the_other_one(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert patched(before, difference(before, after)) == after


@given(DOCUMENTS)
def test_nothing_new_is_nothing_sent(document: dict[str, Any]) -> None:
    assert difference(document, document) == {}


@pytest.mark.parametrize(
    ("before", "after", "patch_sent"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, {"a": {"y": None}}),
        ({"a": [1, 2]}, {"a": [1, 3]}, {"a": [1, 3]}),
        ({"a": {"x": 1}}, {"a": "text"}, {"a": "text"}),
        ({}, {"a": {}}, {"a": {}}),
        ({"a": 10.0}, {"a": 10}, {}),
    ],
)
def test_only_what_is_other_is_sent(before: dict[str, Any], after: dict[str, Any], patch_sent: dict[str, Any]) -> None:
    assert difference(before, after) == patch_sent
