"""The automatic hook changes nothing that a program could notice, wherever it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from powertrain_sdk import install

AUTO = Path(install.__file__).parent / "auto"


def python(*arguments: str, path: list[Path | str], **environ: str) -> "subprocess.CompletedProcess[str]":
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("POWERTRAIN", "PYTHON"))}
    whole = {**inherited, "PYTHONPATH": os.pathsep.join(map(str, path)), **environ}
    return subprocess.run([sys.executable, *arguments], env=whole, capture_output=True, text=True, check=False)


def other(directory: Path, text: str, name: str = "sitecustomize") -> Path:
    directory.mkdir()
    (directory / f"{name}.py").write_text(text)
    return directory


def test_the_next_sitecustomize_runs_and_is_the_one_the_program_sees(tmp_path) -> None:
    users = other(tmp_path / "users", "import sys; VALUE = 5; print('ran', __name__, __file__)")
    result = python("-c", "import sitecustomize; print(sitecustomize.VALUE)", path=[AUTO, users])
    assert result.stdout.splitlines() == [f"ran sitecustomize {users / 'sitecustomize.py'}", "5"]
    assert result.stderr == ""


def test_only_the_first_of_several_others_runs_as_without_us(tmp_path) -> None:
    first = other(tmp_path / "first", "print('first')")
    second = other(tmp_path / "second", "print('second')")
    assert python("-c", "", path=[AUTO, first, second]).stdout == "first\n"


def test_copies_of_the_hook_on_one_path_run_each_other_once(tmp_path) -> None:
    copy = install.install(str(tmp_path / "copy"))
    users = other(tmp_path / "users", "print('ran')")
    code = "import sys; print([type(each).__name__ for each in sys.meta_path].count('_Finder'))"
    result = python("-c", code, path=[AUTO, copy, AUTO, copy, users])
    assert (result.stdout, result.stderr) == ("ran\n1\n", "")


def test_an_error_in_the_next_sitecustomize_looks_as_it_does_without_us(tmp_path) -> None:
    users = other(tmp_path / "users", "raise RuntimeError('mine')")
    with_hook = python("-c", "print('on')", path=[AUTO, users])
    without = python("-c", "print('on')", path=[users])
    assert (with_hook.returncode, with_hook.stdout, with_hook.stderr) == (0, "on\n", without.stderr)


def test_usercustomize_still_runs(tmp_path) -> None:
    users = other(tmp_path / "users", "print('user')", name="usercustomize")
    code = "import site; site.ENABLE_USER_SITE = True; site.execusercustomize()"
    assert python("-c", code, path=[AUTO, users]).stdout.splitlines()[-1:] == ["user"]


def test_a_program_that_does_not_train_loads_nothing_and_sends_nothing(session) -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith(('powertrain_sdk', 'torch', 'socket'))])"
    result = session.run("-c", code, auto=True)
    assert result.stdout.strip() == "[]"
    assert session.datagrams() == []


def test_the_sdk_can_be_imported_though_only_the_hook_is_on_the_path(session) -> None:
    result = session.run("-I", "-c", "pass", auto=True)
    assert result.returncode == 0
    code = "import powertrain_sdk, sys; powertrain_sdk.step(); print(powertrain_sdk.__file__)"
    assert session.run("-c", code, auto=True).stdout.strip() == str(AUTO.parent / "__init__.py")
    assert len(session.datagrams()) == 1


@pytest.mark.parametrize("flag", ["-E", "-I", "-S"])
def test_the_flags_that_are_diagnosed_do_keep_the_hook_out(flag) -> None:
    code = "import sys; print(any(type(each).__name__ == '_Finder' for each in sys.meta_path))"
    assert python(flag, "-c", code, path=[AUTO]).stdout == "False\n"
    assert python("-c", code, path=[AUTO]).stdout == "True\n"
