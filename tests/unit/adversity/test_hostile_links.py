"""A container that could write its session's directory planted links and directories there; the agent starts again."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from powertrain_agent.session_dir import SessionDir

UID = "3f1c7a52-0000-4000-8000-000000000001"
NAMES = (".ready", "ready", "steps.sock")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the host that is no business of the container's."""
    file = tmp_path / "victim"
    file.write_text("as it was")
    file.chmod(0o600)
    return file


@pytest.fixture
def directory(tmp_path: Path) -> SessionDir:
    session = SessionDir(tmp_path / "sessions", UID)
    session.path.mkdir(parents=True)
    return session


def link(place: Path, victim: Path) -> None:
    place.symlink_to(victim)


def hard_link(place: Path, victim: Path) -> None:
    place.hardlink_to(victim)


def dangling_link(place: Path, victim: Path) -> None:
    place.symlink_to(victim.parent / "made-by-the-agent")


def full_directory(place: Path, victim: Path) -> None:
    (place / "inner").mkdir(parents=True)
    (place / "inner/link").symlink_to(victim)


def linked_directory(place: Path, victim: Path) -> None:
    place.symlink_to(victim.parent, target_is_directory=True)


PLANTED = (link, hard_link, dangling_link, full_directory, linked_directory)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_after_a_reboot_the_gate_opens_and_no_planted_link_is_followed(
    directory: SessionDir, victim: Path, plant: Callable[[Path, Path], None]
) -> None:
    for name in NAMES:
        plant(directory.path / name, victim)
    before = sorted(victim.parent.iterdir())
    receiver = directory.open_socket()
    directory.write_ready("boot-2", "12c_1_2_3")
    assert json.loads((directory.path / "ready").read_text())["boot_id"] == "boot-2"
    assert stat.S_IMODE((directory.path / "steps.sock").stat().st_mode) == 0o666
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        handle = os.open(directory.path, os.O_RDONLY)
        sender.sendto(b"hello", f"/proc/self/fd/{handle}/steps.sock")
        os.close(handle)
    assert receiver.recv(100) == b"hello"
    receiver.close()
    assert victim.read_text() == "as it was"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert sorted(victim.parent.iterdir()) == before


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_end_of_a_session_removes_what_was_planted_and_nothing_else(
    directory: SessionDir, victim: Path, plant: Callable[[Path, Path], None]
) -> None:
    plant(directory.path / "ready", victim)
    directory.close_gate()
    assert not os.path.lexists(directory.path / "ready")
    plant(directory.path / "anything", victim)
    directory.remove()
    assert not directory.path.exists()
    assert victim.read_text() == "as it was"


def test_a_directory_deeper_than_any_recursion_does_not_keep_a_session_from_its_end(directory: SessionDir) -> None:
    handle = os.open(directory.path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    directory.remove()
    assert not directory.path.exists()


def test_a_session_directory_that_is_a_link_is_not_entered(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "sessions" / UID).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        SessionDir(tmp_path / "sessions", UID).write_ready("boot", "12c_1_2_3")
    assert list((tmp_path / "elsewhere").iterdir()) == []
