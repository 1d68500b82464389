"""`python -m powertrain_devcluster.kernel BOARD`: boots a board and takes commands for it, one a line."""

from __future__ import annotations

import sys

from powertrain import devices
from powertrain_devcluster.builds.progress import for_stream
from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.kernel.machine import Machine


def main() -> int:
    """Boot the board, run each line of stdin under its shell, and switch it off at the end."""
    if len(sys.argv) != 2 or sys.argv[1] not in devices.names():
        sys.stderr.write(f"usage: python -m powertrain_devcluster.kernel {{{','.join(devices.names())}}}\n")
        return 2
    try:
        with for_stream() as progress:
            progress.waiting(f"the kernel of {sys.argv[1]}")
            machine = Machine(sys.argv[1], progress).__enter__()
        with machine:
            sys.stderr.write(f"{sys.argv[1]} is up after {machine.started_s:.0f} s; end with Ctrl-D\n")
            for line in sys.stdin:
                sys.stdout.write(machine.shell(line.strip()).output)
                sys.stdout.flush()
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
