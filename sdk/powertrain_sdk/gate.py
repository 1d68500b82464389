"""Keeps a training pod waiting until the agent has verified a safe mode: `python -m powertrain_sdk.gate`.

Exit code 0: open. 2: wrong arguments. 4: not open within the timeout. 143: asked to end (SIGTERM).
"""

import argparse
import os
import signal
import sys
import time

from powertrain_sdk import __version__, protocol
from powertrain_sdk.install import install
from powertrain_sdk.steps import write_termination_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional

POLL_S = 0.2
SAY_S = 30.0
# Long enough for an agent that is being upgraded, short enough that somebody looks into it.
TIMEOUT_S = 600.0
EXIT_TIMEOUT = 4
EXIT_TERMINATED = 128 + signal.SIGTERM


def closed_because(directory: str, session: str, boot_id: str) -> "Optional[str]":
    """Return why the gate is closed, in words; None when it is open for this session in this boot."""
    if not os.path.isdir(directory):
        return "the directory %s is not there" % directory
    if not os.path.exists(os.path.join(directory, protocol.READY_NAME)):
        return "the agent of this node has not verified a safe mode yet"
    ready = protocol.read_ready(directory)
    if ready is None:
        return "the ready file can't be read"
    if ready.get("session") != session:
        return "the ready file is of session %r" % (ready.get("session"),)
    if ready.get("boot_id") != boot_id:
        return "the ready file is of another boot (%r, this is %s)" % (ready.get("boot_id"), boot_id)
    return None


def wait(
    directory: str,
    session: str,
    boot_id: str,
    timeout_s: float,
    say: "Callable[[str], None]",
    clock: "Callable[[], float]" = time.monotonic,
    sleep: "Callable[[float], Any]" = time.sleep,
) -> "Optional[str]":
    """Wait until the gate is open and return None, or the reason when it is still closed at the timeout (0: never)."""
    started_s = clock()
    said_s = None  # type: Optional[float]
    while True:
        reason = closed_because(directory, session, boot_id)
        if reason is None:
            return None
        now_s = clock()
        waited_s = now_s - started_s
        if timeout_s > 0 and waited_s >= timeout_s:
            return reason
        if said_s is None or now_s - said_s >= SAY_S:
            say("waiting for a safe power mode of session %s, %.0f s so far: %s" % (session, waited_s, reason))
            said_s = now_s
        sleep(POLL_S)


def read_boot_id() -> str:
    """Return which boot of the node this is."""
    boot_id = os.environ.get(protocol.ENV_BOOT)
    if boot_id:
        return boot_id
    with open(protocol.BOOT_ID_FILE, encoding="ascii") as stream:
        return stream.read().strip()


def _parse(arguments: "Optional[List[str]]") -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m powertrain_sdk.gate", description=__doc__.splitlines()[0])
    parser.add_argument("--dir", default=protocol.session_dir(os.environ), help="the session's directory (%(default)s)")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="SECONDS", help="0: no limit (%(default)s)")
    parser.add_argument("--session", default=os.environ.get(protocol.ENV_SESSION), metavar="UID", help="its uid")
    parser.add_argument("--install", metavar="DIR", help="copy the SDK there first, for instrumentation: Auto")
    parser.add_argument("--version", action="version", version="powertrain-gate %s" % __version__)
    options = parser.parse_args(arguments)
    if not options.session:
        parser.error("which session? Give --session UID or set %s" % protocol.ENV_SESSION)
    if not options.timeout >= 0:
        parser.error("--timeout %s: must be 0 (no limit) or a number of seconds" % options.timeout)
    return options


def _end_on_sigterm(number: int, _: "Any") -> None:
    sys.exit(EXIT_TERMINATED)


def _say(text: str) -> None:
    sys.stdout.write("powertrain gate: %s\n" % text)
    sys.stdout.flush()


def main(arguments: "Optional[List[str]]" = None) -> int:
    """Wait at the gate."""
    # The first process of a container ignores SIGTERM unless it says otherwise.
    signal.signal(signal.SIGTERM, _end_on_sigterm)
    options = _parse(arguments)
    try:
        if options.install:
            install(options.install)
        boot_id = read_boot_id()
    except OSError as error:
        _say("can't start: %s" % error)
        return 1
    reason = wait(options.dir, options.session, boot_id, options.timeout, _say)
    if reason is not None:
        text = "closed after %.0f s: %s" % (options.timeout, reason)
        _say(text)
        write_termination_message(text)
        return EXIT_TIMEOUT
    mode = (protocol.read_ready(options.dir) or {}).get("mode")
    _say("open, safe mode %s" % (mode,))
    return 0


if __name__ == "__main__":
    sys.exit(main())
