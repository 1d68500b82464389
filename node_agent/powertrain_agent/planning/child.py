"""The planner's process: takes the lowest priority before it loads anything heavy, then answers line by line."""

from __future__ import annotations

import contextlib
import os
import sys

NICENESS = 19


def main() -> None:
    """Answer until the input ends, or until nobody reads the answers: the agent was killed."""
    os.nice(NICENESS)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not stand between the answers
    from powertrain_agent.planning.answering import serve

    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
