"""Mistakes in the command's words (a missing argument, a wrong value) as one plain line."""

from __future__ import annotations

import re
from typing import Any

# The library's words, and ours.
_REWRITES = (
    (r"Invalid value for '?([^':]+)'?: Input should be a valid number.*", r"\1 takes a number"),
    (r"Invalid value for '?([^':]+)'?: Input should be a valid integer.*", r"\1 takes a whole number"),
    (r"Invalid value for '?([^':]+)'?: Input should be greater than or equal to (\S+).*", r"\1 must be at least \2"),
    (r"Invalid value for '?([^':]+)'?: Input should be less than or equal to (\S+).*", r"\1 must be at most \2"),
    (r"Invalid value for '?([^':]+)'?: (.*)", r"\1: \2"),
    (r"Missing argument '?([^'.]+)'?\.?", r"\1 is missing"),
    (r"Missing option '?([^'.]+)'?\.?", r"\1 is missing"),
    (r"No such option: (\S+)\.?(.*)", r"there is no option \1.\2"),
    (r"No such command '([^']+)'\.?(.*)", r"there is no verb \1.\2"),
    (r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", r"too many arguments: \1"),
)


def is_usage_error(error: BaseException) -> bool:
    """Say whether the library that reads the command line raised this; its class moved between releases."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def shows_help(error: BaseException) -> bool:
    """Say whether it stands for a command without arguments, which shows its help."""
    return type(error).__name__ == "NoArgsIsHelpError"


def words(error: Any) -> str:
    """Return the mistake in one line that ends with where the help is."""
    text = " ".join(str(error.format_message()).split())
    for pattern, ours in _REWRITES:
        text, count = re.subn(f"^{pattern}$", ours, text)
        if count:
            break
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "powertrain"
    return f"{text.strip().rstrip('.')}; see: {command} -h"
