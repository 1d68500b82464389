"""Errors of the cluster verbs, one per thing the caller can do about it."""

from __future__ import annotations


class ClusterError(Exception):
    """The cluster cannot be started, reached or stopped; the message is one line for a person."""

    exit_code = 3


class MissingToolError(ClusterError):
    """A program is neither there nor can it be had; the message says what to install."""


class BadInputError(ClusterError):
    """The caller gave a value that cannot be right; the message names it and the right ones."""

    exit_code = 2


class PortTakenError(ClusterError):
    """Another process took a port between its choice and its use; another port may be free."""


class DiskFullError(ClusterError):
    """There is no room for the cluster's data."""


class UnsupportedMachineError(ClusterError):
    """This machine cannot run what was asked (no root, no control groups, ...); the message says why."""


class NotPreparedError(ClusterError):
    """Something that takes minutes to make is not there, and this is not the moment to make it."""


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, for a message of one line."""
    text = str(getattr(error, "reason", None) or error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
