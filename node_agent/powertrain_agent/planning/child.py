"""The planner's process: takes the lowest priority before it loads anything heavy, then answers line by line."""

from __future__ import annotations

import os
import sys

NICENESS = 19


def main() -> None:
    """Answer until the input ends."""
    os.nice(NICENESS)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not stand between the answers
    from powertrain_agent.planning.answering import serve

    serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
