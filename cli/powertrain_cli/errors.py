"""Exit codes, and how a user's mistake becomes one line on stderr instead of a traceback."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the command's exit code tells a script."""

    DONE = 0
    NO_SOLUTION = 1
    BAD_INPUT = 2
    ENVIRONMENT = 3


class CliError(Exception):
    """A failure with its exit code; the message is all that the user sees."""

    def __init__(self, message: str, code: Exit = Exit.BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code


class MissingExtraError(CliError):
    """A verb whose package is not installed; the message names the extra."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.ENVIRONMENT)


def exit_code(error: Exception) -> Exit | None:
    """Return the exit code of a failure that the user can mend, None for a bug in this program."""
    # Imported here: only a failure needs them, and they are most of the start-up time of `--help`.
    from powertrain.devices import UnknownDeviceError
    from powertrain.modes import ModeError
    from powertrain.objectives import LimitError
    from powertrain.sample_csv import TableError

    if isinstance(error, CliError):
        return error.code
    if isinstance(error, ModeError | UnknownDeviceError | TableError | LimitError):
        return Exit.BAD_INPUT
    return Exit.ENVIRONMENT if isinstance(error, OSError) else None
