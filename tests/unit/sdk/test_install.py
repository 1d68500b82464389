"""The copy of the SDK in a shared volume works for every user and can be made anew."""

import os
import stat
import subprocess
import sys
from pathlib import Path

from powertrain_sdk import install


def test_the_copy_runs_from_where_it_was_put(tmp_path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "powertrain_sdk.install", str(tmp_path / "shared")],
        capture_output=True,
        text=True,
        check=True,
    )
    entry = result.stdout.strip().rpartition(" ")[2]
    code = "import powertrain_sdk; print(powertrain_sdk.__file__)"
    environ = {**os.environ, "PYTHONPATH": entry}
    location = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert location.stdout.strip() == str(tmp_path / "shared" / "powertrain_sdk" / "__init__.py")


def test_any_user_may_read_the_copy_whatever_the_umask(tmp_path) -> None:
    before = os.umask(0o077)
    try:
        install.install(str(tmp_path))
    finally:
        os.umask(before)
    copied = list((tmp_path / "powertrain_sdk").rglob("*"))
    assert copied
    assert all(stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644) for path in copied)


def test_a_second_copy_replaces_the_first_and_leaves_nothing_beside_it(tmp_path) -> None:
    install.install(str(tmp_path))
    (tmp_path / "powertrain_sdk" / "old.py").write_text("")
    assert install.install(str(tmp_path)) == str(tmp_path / "powertrain_sdk" / "auto")
    assert [path.name for path in tmp_path.iterdir()] == ["powertrain_sdk"]
    assert not (tmp_path / "powertrain_sdk" / "old.py").exists()
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_directory_that_can_t_be_made_is_said(tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("")
    assert install.main([str(Path(tmp_path, "file"))]) == 1
    assert "can't be copied" in capsys.readouterr().err
