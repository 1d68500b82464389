"""The bytes of a datagram are those the reference page promises."""

import json
from pathlib import Path

import pytest

from powertrain_sdk import protocol

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))["datagrams"]
VALID = [vector for vector in VECTORS if vector["valid"]]


@pytest.mark.parametrize("vector", VALID, ids=lambda vector: vector["name"])
def test_the_sdk_writes_exactly_the_published_bytes(vector: dict) -> None:
    fields = dict(vector["fields"])
    uid = fields.pop("uid").encode("ascii")
    assert protocol.pack(uid=uid, **fields).hex() == vector["hex"]


def test_there_are_vectors_for_every_kind_and_for_malformed_bytes() -> None:
    assert {vector["fields"]["kind"] for vector in VALID} == {1, 2, 3, 4}
    assert len(VECTORS) - len(VALID) >= 10


def test_numbers_beyond_their_bounds_are_cut_not_refused() -> None:
    data = protocol.pack(1, b"x" * 70, 0, 0, 2**40, 2**70, 0.0, 1, 2**40, 2**20)
    assert len(data) == 56 + 64
    assert protocol.HEADER.unpack(data[:56])[5:7] == (2**32 - 1, 10**6)
    assert protocol.HEADER.unpack(data[:56])[10] == 10**12


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({}, 0),
        ({"LOCAL_RANK": "0", "SLURM_LOCALID": "3"}, 0),
        ({"LOCAL_RANK": "2"}, 2),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 1),
        ({"SLURM_LOCALID": "5"}, 5),
        ({"LOCAL_RANK": "many"}, 0),
    ],
)
def test_the_local_rank_is_the_launcher_s(environ: dict[str, str], rank: int) -> None:
    assert protocol.local_rank(environ) == rank


def test_without_a_uid_in_the_environment_the_ready_file_names_the_session(tmp_path: Path) -> None:
    environ = {"POWERTRAIN_SESSION_DIR": str(tmp_path)}
    assert protocol.session_uid(environ) == b""
    (tmp_path / "ready").write_text('{"session": "abc", "boot_id": "b", "mode": "m"}')
    assert protocol.session_uid(environ) == b"abc"
    assert protocol.session_uid({**environ, "POWERTRAIN_SESSION_UID": "given"}) == b"given"


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_a_ready_file_that_is_no_object_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "ready").write_text(text)
    assert protocol.read_ready(str(tmp_path)) is None
