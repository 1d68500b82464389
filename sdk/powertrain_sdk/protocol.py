"""What the container and the agent on its node say to each other: names, environment, and the bytes of one datagram.

A directory on the host, one per session, is mounted read-only at ``POWERTRAIN_SESSION_DIR`` (default /run/powertrain).
The agent makes two things in it:

``steps.sock``
    a Unix datagram socket, mode 0666 (trainings do not always run as root; connecting needs write permission on the
    socket, and a read-only mount does not take that away). The SDK sends, the agent reads, nothing is answered.
``ready``
    JSON ``{"session": "<uid>", "boot_id": "<boot id>", "mode": <any>}``, written by rename once a safe mode was
    verified for that session in that boot. The gate waits for it.

A datagram is little-endian, 56 bytes and then the session's uid as ASCII:

    ====== ======= ===== ==================================================================================
    offset length  type  meaning
    ====== ======= ===== ==================================================================================
    0      2       bytes ``PT``
    2      1       u8    version, 1
    3      1       u8    kind: 1 step, 2 epoch, 3 reached, 4 device
    4      2       u16   local rank (only rank 0 sends)
    6      2       u16   length of the uid, at most 64 (0: the container was told none)
    8      4       u32   process id as the container sees it
    12     4       u32   count: steps in this datagram (step), 1 (other kinds)
    16     8       u64   sender: random, one per process, so that equal process ids of two containers differ
    24     8       u64   sequence: 0, 1, 2, … per sender; a gap is a lost datagram
    32     8       i64   CLOCK_MONOTONIC in ns when the last of these steps (or the event) happened
    40     8       u64   steps of this sender so far, these included: survives lost datagrams
    48     8       f64   value: epochs so far (epoch), accuracy (reached), 0 (step);
                         device: 1 on the GPU, 0 on the CPU
    56     0 – 64  ASCII the session's uid
    ====== ======= ===== ==================================================================================

The container is not trusted: a receiver checks every field, counts and drops what is malformed or foreign. Its bounds:
count from 1 to 10^6; total, sequence and epochs at most 10^12; the clock at most 10^18 ns; an accuracy within ± 10^9.
"""

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping, Optional

VERSION = 1
KIND_STEP = 1
KIND_EPOCH = 2
KIND_REACHED = 3
KIND_DEVICE = 4
MAGIC = b"PT"
HEADER = struct.Struct("<2sBBHHIIQQqQd")
UID_LIMIT = 64

ENV_DIR = "POWERTRAIN_SESSION_DIR"
ENV_SESSION = "POWERTRAIN_SESSION_UID"
ENV_BOOT = "POWERTRAIN_BOOT_ID"
DEFAULT_DIR = "/run/powertrain"
SOCKET_NAME = "steps.sock"
READY_NAME = "ready"
BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
# torchrun, Open MPI and Slurm, in the order in which the first one that is set counts.
LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")

COUNT_LIMIT = 10**6
NUMBER_LIMIT = 10**12
AT_NS_LIMIT = 10**18
ACCURACY_LIMIT = 1e9

_U32_MAX = 2**32 - 1


def pack(
    kind: int,
    uid: bytes,
    sequence: int,
    at_ns: int,
    count: int,
    total: int,
    value: float,
    sender: int,
    pid: int,
    local_rank: int,
) -> bytes:
    """Return the bytes of one datagram; numbers beyond what a receiver takes are cut to the nearest that it does."""
    uid = uid[:UID_LIMIT]
    lowest, highest = (-ACCURACY_LIMIT, ACCURACY_LIMIT) if kind == KIND_REACHED else (0.0, float(NUMBER_LIMIT))
    header = HEADER.pack(
        MAGIC,
        VERSION,
        kind,
        min(local_rank, 0xFFFF),
        len(uid),
        min(pid, _U32_MAX),
        min(count, COUNT_LIMIT),
        sender,
        min(sequence, NUMBER_LIMIT),
        min(at_ns, AT_NS_LIMIT),
        min(total, NUMBER_LIMIT),
        min(max(value, lowest), highest),
    )
    return header + uid


def session_dir(environ: "Mapping[str, str]") -> str:
    """Return the directory where the socket and the ready file are, whether it exists or not."""
    return environ.get(ENV_DIR) or DEFAULT_DIR


def session_uid(environ: "Mapping[str, str]") -> bytes:
    """Return the session's uid: from the environment, else from the ready file, else nothing."""
    uid = environ.get(ENV_SESSION)
    if not uid:
        ready = read_ready(session_dir(environ))
        uid = str(ready.get("session", "")) if ready else ""
    return uid.encode("ascii", "replace")


def local_rank(environ: "Mapping[str, str]") -> int:
    """Return this process's rank on its node; 0 where nobody set one."""
    for name in LOCAL_RANK_VARIABLES:
        text = environ.get(name, "")
        if text.isdigit():
            return int(text)
    return 0


def read_ready(directory: str) -> "Optional[Dict[str, Any]]":
    """Return what the ready file says; None while it is absent, unreadable or no JSON object."""
    import json

    try:
        with open(os.path.join(directory, READY_NAME), encoding="utf-8") as stream:
            ready = json.load(stream)
    except (OSError, ValueError):
        return None
    return ready if isinstance(ready, dict) else None
