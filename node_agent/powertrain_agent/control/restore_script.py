"""Writes restore.sh: a POSIX shell script that puts the board back without the agent."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from powertrain_agent.control.attributes import Attribute, Role
from powertrain_agent.control.snapshot import BOOT_ID, SNAPSHOT, Snapshot
from powertrain_agent.control.write_order import sequence

_HEAD = """\
#!/bin/sh
# Restores the original settings of this board when its agent is gone.
# Usage: sh restore.sh [ROOT]    (as root; ROOT is where the board's / is mounted, by default /)
root=${{1:-}}
root=${{root%/}}
snapshot=$(dirname "$0")/{snapshot}
if [ ! -f "$snapshot" ]; then
    echo "nothing to restore: $snapshot is gone"
    exit 0
fi
if [ "$(cat "$root{boot_id_path}")" != {boot_id} ]; then
    echo "nothing to restore: the board has rebooted since"
    exit 0
fi
failed=0
put() {{
    [ -e "$root$1" ] && {{ printf '%s\\n' "$2" >"$root$1"; }} 2>/dev/null
}}
check() {{
    shown=$(cat "$root$1" 2>/dev/null)
    if [ "$shown" != "$2" ]; then
        echo "NOT restored: $1 shows '$shown', not '$2'" >&2
        failed=1
    fi
}}
any_online() {{
    for cpu in "$@"; do
        [ "$cpu" -eq 0 ] && return 0
        [ "$(cat "$root/sys/devices/system/cpu/cpu$cpu/online" 2>/dev/null)" = 1 ] && return 0
    done
    return 1
}}
"""

_TAIL = """\
if [ "$failed" -eq 0 ]; then
    rm -f "$snapshot"
    echo "restored"
fi
exit "$failed"
"""


class _UnknownCores:
    """The board as the script must take it: any core may be offline when it runs, so it wakes all of them first."""

    def __init__(self, attributes: Iterable[Attribute]) -> None:
        self._cpus = frozenset(cpu for attribute in attributes for cpu in attribute.cpus)

    def read(self, attributes: Iterable[Attribute]) -> dict[str, str | None]:
        """Return that nothing is known of them."""
        return dict.fromkeys((attribute.path for attribute in attributes), None)

    def online(self) -> frozenset[int]:
        """Return all CPUs: the script has brought them online by then."""
        return self._cpus


def script(snapshot: Snapshot) -> str:
    """Return the script for a snapshot, in the same order of writes that the agent uses."""
    head = _HEAD.format(snapshot=SNAPSHOT, boot_id_path=BOOT_ID, boot_id=shlex.quote(snapshot.boot_id))
    cores = {attribute.path for attribute in snapshot.attributes if attribute.role is Role.ONLINE}
    board = _UnknownCores(snapshot.attributes)
    steps = list(sequence(board, (snapshot.attributes, snapshot.originals), needed=cores))
    lines = [_line("put", path, text) for step in steps for path, text in step.writes]
    final = {attribute: value for step in steps for attribute, value in step.expect.items()}
    for attribute, value in final.items():
        check = _line("check", attribute.shown_at, value)
        guarded = attribute.role in (Role.MIN, Role.MAX) and attribute.cpus
        lines.append(f"any_online {' '.join(map(str, attribute.cpus))} && {check}" if guarded else check)
    return head + "\n".join(lines) + "\n" + _TAIL


def _line(command: str, path: str, value: str) -> str:
    return f"{command} {shlex.quote(path)} {shlex.quote(value)}"
