"""Exit codes, and how a user's mistake becomes one line on stderr instead of a traceback."""

from __future__ import annotations

from enum import IntEnum

from powertrain.devices import UnknownDeviceError
from powertrain.modes import ModeError
from powertrain.objectives import LimitError
from powertrain.sample_csv import TableError


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


# What the user can put right by other input.
BAD_INPUT_ERRORS: tuple[type[Exception], ...] = (ModeError, UnknownDeviceError, TableError, LimitError)
