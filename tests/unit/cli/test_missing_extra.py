"""A verb whose package is not installed says which extra brings it."""

import pytest

from powertrain_cli.errors import Exit, MissingExtraError
from powertrain_cli.lazy import Verb


def test_a_verb_without_its_package_names_the_extra() -> None:
    verb = Verb("cluster", "A cluster.", "powertrain_absent.commands", app="app", extra="devcluster")
    with pytest.raises(MissingExtraError, match=r"\.\[devcluster\]") as caught:
        verb.load()
    assert caught.value.code is Exit.ENVIRONMENT


def test_a_module_that_is_missing_inside_the_package_is_a_bug_of_ours() -> None:
    verb = Verb("cluster", "A cluster.", "powertrain_cli.absent", app="app", extra="devcluster")
    with pytest.raises(ModuleNotFoundError):
        verb.load()
