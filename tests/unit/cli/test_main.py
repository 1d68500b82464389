"""The command as a whole: help, version, completion, exit codes."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from powertrain import __version__
from powertrain_cli import main
from powertrain_cli.errors import CliError, Exit, exit_code

Command = Callable[..., Any]


def test_help_lists_every_verb(powertrain: Command) -> None:
    out = powertrain("--help").out
    for verb in main.VERBS:
        assert f" {verb.name} " in out


def test_without_arguments_help_is_shown(powertrain: Command) -> None:
    result = powertrain()
    assert result.code == 2
    assert "Usage: powertrain" in result.out + result.err


def test_the_version_is_printed(powertrain: Command) -> None:
    assert powertrain("--version").out == f"powertrain {__version__}\n"


@pytest.mark.parametrize("verb", main.VERBS, ids=lambda verb: verb.name)
def test_the_line_shown_for_a_verb_is_the_first_of_its_own_help(verb: Any) -> None:
    command = verb.load()
    assert command.name == verb.name
    assert command.help.splitlines()[0] == verb.help


@pytest.mark.parametrize("verb", ["devices", "modes", "pareto", "choose", "doctor"])
def test_the_help_of_a_verb_has_examples(powertrain: Command, verb: str) -> None:
    out = powertrain(verb, "--help").out
    assert "Examples" in out
    assert f"powertrain {verb}" in out


def test_an_unknown_verb_is_refused_with_the_nearest(powertrain: Command) -> None:
    result = powertrain("paretto")
    assert result.code == 2
    assert "Did you mean 'pareto'?" in result.err


def loaded_by(argument: str, *modules: str) -> tuple[str, list[str]]:
    """Return what a command prints, and which of these modules it has loaded by then."""
    code = (
        f"import sys; from powertrain_cli import main; sys.argv = ['powertrain', {argument!r}]\n"
        "try: main.run()\n"
        "except SystemExit: pass\n"
        f"print([m for m in {modules!r} if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *lines, modules_loaded = result.stdout.splitlines()
    return "\n".join(lines), ast.literal_eval(modules_loaded)


def test_help_loads_neither_the_catalogue_nor_the_cluster() -> None:
    assert loaded_by("--help", "pydantic", "numpy", "scipy", "kubernetes", "matplotlib")[1] == []


def test_a_list_of_the_boards_loads_no_arrays_and_no_cluster() -> None:
    output, loaded = loaded_by("devices", "numpy", "scipy", "kubernetes", "matplotlib", "rich.progress")
    assert "orin-agx" in output
    assert loaded == []


def complete(words: str, shell: str = "bash") -> list[str]:
    """Return what the shell would offer for the last word."""
    environment = {
        **os.environ,
        "_POWERTRAIN_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_TYPER_COMPLETE_ARGS": words,
    }
    code = "import sys; sys.argv[0] = 'powertrain'; from powertrain_cli.main import run; run()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert result.stderr == ""
    return result.stdout.split()


def test_completion_offers_verbs_options_and_values() -> None:
    assert complete("powertrain pa") == ["pareto"]
    assert "--power" in complete("powertrain choose --po")
    assert complete("powertrain pareto x.csv --device orin-n") == [
        "orin-nano",
        "orin-nano-4",
        "orin-nano-4-super",
        "orin-nano-super",
        "orin-nx-16",
        "orin-nx-16-super",
        "orin-nx-8",
        "orin-nx-8-super",
    ]
    assert complete("powertrain choose x.csv --objective MinE") == ["MinEnergy"]


def test_completion_offers_boards_where_a_board_stands_for_a_verb() -> None:
    assert complete("powertrain devices tx") == ["tx2", "tx2-nx"]
    assert complete("powertrain devices dr") == ["draft"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CliError("x"), Exit.BAD_INPUT),
        (CliError("x", Exit.ENVIRONMENT), Exit.ENVIRONMENT),
        (OSError("disk full"), Exit.ENVIRONMENT),
        (KeyError("bug"), None),
    ],
)
def test_failures_have_their_exit_code_and_bugs_have_none(error: Exception, code: Exit | None) -> None:
    assert exit_code(error) is code


def test_a_full_disk_is_said_in_one_line(powertrain: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(main, "app", fail)
    result = powertrain()
    assert (result.code, result.err) == (3, "error: [Errno 28] No space left on device\n")


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(ZeroDivisionError):
        main.run()


def test_a_closed_pipe_ends_quietly() -> None:
    script = (
        "import sys; from powertrain_cli.main import run; sys.argv = ['powertrain', 'modes', 'thor', '--csv']; run()"
    )
    writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stderr is not None
    first = writer.stdout.readline()
    writer.stdout.close()
    assert writer.stderr.read() == ""
    assert first.startswith("cpu_cores")
    writer.stderr.close()
    assert writer.wait() in (0, 1)


@pytest.mark.parametrize("arguments", [("-h",), ("tune", "-h"), ("devices", "show", "-h")])
def test_the_short_option_shows_the_help_too(powertrain: Any, arguments: tuple[str, ...]) -> None:
    result = powertrain(*arguments)
    assert result.code == 0
    assert "Usage:" in result.out
