"""Modules that are built as main modules: fetched with their checksum, copied so that they can be changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from powertrain_devcluster.builds import gomodule, k3s, progress
from powertrain_devcluster.builds.gomodule import GoModule
from powertrain_devcluster.errors import ClusterError, MissingToolError

SUM = "h1:vdbL="


@pytest.fixture
def pinned(tmp_path: Path) -> GoModule:
    pin = tmp_path / "hack"
    pin.mkdir()
    (pin / "go.mod").write_text("module pin\n")
    (pin / "go.sum").write_text(f"example.org/far v1.0.0 {SUM}\nexample.org/far v1.0.0/go.mod h1:qxWK=\n")
    return GoModule("example.org/far", "v1.0.0", pin)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def go_with(tmp_path: Path, version_line: str, code: int = 0) -> Path:
    """A Go tool whose cache holds a read-only module of this checksum, and that notes what it was told."""
    module = tmp_path / "cache" / "far@v1.0.0"
    (module / "cmd").mkdir(parents=True)
    (module / "cmd" / "main.go").write_text("package main\n")
    for path in (module / "cmd" / "main.go", module / "cmd", module):
        path.chmod(0o444 if path.is_file() else 0o555)
    go = tmp_path / "go"
    answer = json.dumps({"Dir": str(module), "Sum": version_line})
    go.write_text(
        f'#!/bin/sh\necho "$GONOSUMDB" > {tmp_path}/excepted\ncp go.* {tmp_path}/ 2>/dev/null\n'
        f"[ {code} = 0 ] || echo refused >&2\necho '{answer}'\nexit {code}\n"
    )
    go.chmod(0o755)
    return go


def test_a_copy_can_be_changed_and_the_checksum_database_is_not_asked_about_this_module_alone(
    pinned: GoModule, scratch: Path, tmp_path: Path
) -> None:
    env = {**os.environ, "GONOSUMDB": "site.example"}
    source = gomodule.copy(pinned, go_with(tmp_path, SUM), scratch, env)
    (source / "cmd" / "main.go").write_text("package other\n")
    (source / "cmd" / "new.go").write_text("package other\n")
    assert (tmp_path / "excepted").read_text() == "site.example,example.org/far\n"
    # Go itself refuses a module whose checksum differs from the one in the go.sum beside it.
    assert SUM in (tmp_path / "go.sum").read_text()


def test_a_checksum_that_is_not_pinned_is_refused(pinned: GoModule, scratch: Path, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"far@v1\.0\.0: its checksum h1:other= is not the one in .*go\.sum"):
        gomodule.fetch(pinned, go_with(tmp_path, "h1:other="), scratch)


def test_the_checksum_database_is_asked_about_a_module_without_a_pin(scratch: Path, tmp_path: Path) -> None:
    module = GoModule("example.org/far", "v1.0.0")
    env = {name: value for name, value in os.environ.items() if name != "GONOSUMDB"}
    gomodule.fetch(module, go_with(tmp_path, "h1:any="), scratch, env)
    assert (tmp_path / "excepted").read_text() == "\n"


def test_a_module_that_can_not_be_downloaded_is_one_line(pinned: GoModule, scratch: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match=r"example\.org/far@v1\.0\.0 can't be downloaded: refused"):
        gomodule.fetch(pinned, go_with(tmp_path, SUM, code=1), scratch)


def test_k3s_is_pinned_by_version_and_checksum_and_its_entry_is_named_by_them() -> None:
    module = k3s._module()
    assert module.pin is not None
    sums = dict(line.rsplit(" ", 1) for line in (module.pin / "go.sum").read_text().splitlines())
    assert set(sums) == {f"{module.path} {module.version}", f"{module.path} {module.version}/go.mod"}
    assert module.version in k3s.entry().name


def test_without_a_c_compiler_k3s_says_what_to_install(tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho go version go1.26.0 linux/amd64\n")
    go.chmod(0o755)
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    env = {"PATH": str(go.parent), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    with pytest.raises(MissingToolError, match=r"cannot be built without a C compiler: install gcc"):
        k3s.programs(progress.Silent(), env)
    assert not k3s.is_cached(env)
