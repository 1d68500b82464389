"""The command `powertrain`: mounts the verbs and turns known failures into messages and exit codes."""

from __future__ import annotations

import os
import sys

import typer

from powertrain import __version__
from powertrain_cli import devices
from powertrain_cli.errors import BAD_INPUT_ERRORS, CliError, Exit
from powertrain_cli.output import stderr

app = typer.Typer(
    name="powertrain",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Train on Jetson boards as fast as a power budget allows.",
    epilog="Exit codes: 0 done, 1 no solution, 2 bad input, 3 environment.",
)


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"powertrain {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and end."
    ),
) -> None:
    """Hold the options of the whole command."""


devices.mount(app)


def run() -> None:
    """Run the command line; the entry point of `powertrain` and `kubectl-powertrain`. A user's mistake is one line on stderr."""
    try:
        app()
    except CliError as error:
        sys.exit(_fail(error, error.code))
    except BAD_INPUT_ERRORS as error:
        sys.exit(_fail(error, Exit.BAD_INPUT))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.exit(_fail(error, Exit.ENVIRONMENT))


def _fail(error: Exception, code: Exit) -> int:
    stderr().print(f"error: {error}", style="red", markup=False, soft_wrap=True)
    return int(code)
