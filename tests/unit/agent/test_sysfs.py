"""The Sysfs port: inside its root, in time, with errors that name the file."""

import errno
import os
import threading
from pathlib import Path

import pytest

from powertrain_agent.sysfs import Sysfs, SysfsError, SysfsTimeoutError


def _file(root: Path, path: str, text: str) -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


def test_read_strips_newline_and_nul(tmp_path: Path) -> None:
    _file(tmp_path, "/proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
    _file(tmp_path, "/sys/kernel/x", "0-11 \n")
    sysfs = Sysfs(tmp_path)
    assert sysfs.read("/proc/device-tree/model") == "NVIDIA Jetson AGX Orin Developer Kit"
    assert sysfs.read("/sys/kernel/x") == "0-11"


def test_write_replaces_the_whole_value(tmp_path: Path) -> None:
    target = _file(tmp_path, "/sys/a/max", "2201600\n")
    Sysfs(tmp_path).write("/sys/a/max", "5")
    assert target.read_text() == "5\n"


def test_write_never_creates_a_file(tmp_path: Path) -> None:
    with pytest.raises(SysfsError, match="ENOENT") as caught:
        Sysfs(tmp_path).write("/sys/a/max", "5")
    assert caught.value.path == "/sys/a/max"
    assert caught.value.errno == errno.ENOENT
    assert list(tmp_path.iterdir()) == []


def test_an_absolute_link_is_followed_inside_the_root(tmp_path: Path) -> None:
    _file(tmp_path, "/etc/nvpmodel/a.conf", "inside")
    (tmp_path / "etc/nvpmodel.conf").symlink_to("/etc/nvpmodel/a.conf")
    sysfs = Sysfs(tmp_path)
    assert sysfs.read("/etc/nvpmodel.conf") == "inside"
    assert sysfs.resolve("/etc/nvpmodel.conf") == "/etc/nvpmodel/a.conf"


def test_dots_do_not_leave_the_root(tmp_path: Path) -> None:
    _file(tmp_path.parent, "secret-of-the-host", "outside")
    (tmp_path / "link").symlink_to("../../../../../../secret-of-the-host")
    assert not Sysfs(tmp_path).exists("/link")


def test_a_link_loop_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(SysfsError, match="ELOOP"):
        Sysfs(tmp_path).read("/a")


def test_a_moved_device_is_found_again(tmp_path: Path) -> None:
    _file(tmp_path, "/sys/devices/hwmon1/v", "1")
    link = tmp_path / "sys/hwmon"
    link.symlink_to("devices/hwmon1")
    sysfs = Sysfs(tmp_path)
    assert sysfs.read("/sys/hwmon/v") == "1"
    (tmp_path / "sys/devices/hwmon1").rename(tmp_path / "sys/devices/hwmon2")
    link.unlink()
    link.symlink_to("devices/hwmon2")
    assert sysfs.read("/sys/hwmon/v") == "1"


def test_a_hanging_read_times_out_and_other_files_still_work(tmp_path: Path) -> None:
    fifo = tmp_path / "hangs"
    os.mkfifo(fifo)
    _file(tmp_path, "/fine", "1")
    sysfs = Sysfs(tmp_path, timeout_s=0.05)
    with pytest.raises(SysfsTimeoutError, match="hangs"):
        sysfs.read("/hangs")
    assert sysfs.read("/fine") == "1"
    os.close(os.open(fifo, os.O_WRONLY))


def test_a_hanging_file_is_not_asked_again_until_it_returns(tmp_path: Path) -> None:
    gate, calls = threading.Event(), []

    class Hanging(Sysfs):
        def read_now(self, path: str) -> str:
            calls.append(path)
            gate.wait(10)
            return "back"

    sysfs = Hanging(tmp_path, timeout_s=0.05)
    for _ in range(3):
        with pytest.raises(SysfsTimeoutError):
            sysfs.read("/hangs")
    assert calls == ["/hangs"]
    gate.set()
    stuck = sysfs._hung["/hangs"]
    assert stuck.completion.wait(5)
    assert sysfs.read("/hangs") == "back"


def test_several_files_are_read_in_one_go_and_one_that_can_not_be_is_none(tmp_path: Path) -> None:
    _file(tmp_path, "/a", "1\n")
    _file(tmp_path, "/b", "2\n")
    sysfs = Sysfs(tmp_path)
    assert sysfs.read_each(["/a", "/missing", "/b"]) == {"/a": "1", "/missing": None, "/b": "2"}
    assert sysfs.read_each(["/missing"]) == {"/missing": None}
    assert sysfs.read_each([]) == {}


def test_a_file_that_hangs_hides_none_of_those_read_with_it(tmp_path: Path) -> None:
    gate = threading.Event()

    class Hanging(Sysfs):
        def read_now(self, path: str) -> str:
            if path == "/hangs":
                gate.wait(10)
            return path

    sysfs = Hanging(tmp_path, timeout_s=0.1)
    for _ in range(2):
        assert sysfs.read_each(["/a", "/hangs", "/b"]) == {"/a": "/a", "/hangs": None, "/b": "/b"}
    gate.set()
    assert all(stuck.completion.wait(5) for stuck in list(sysfs._hung.values()))
    assert sysfs.read_each(["/a", "/hangs", "/b"]) == {"/a": "/a", "/hangs": "/hangs", "/b": "/b"}


def test_mode_bits_count_even_for_root(tmp_path: Path) -> None:
    target = _file(tmp_path, "/sys/ro", "1")
    target.chmod(0o444)
    sysfs = Sysfs(tmp_path)
    assert not sysfs.is_writable("/sys/ro")
    target.chmod(0o644)
    assert sysfs.is_writable("/sys/ro")
    assert not sysfs.is_writable("/sys/absent")


def test_list_of_a_missing_directory_is_empty(tmp_path: Path) -> None:
    _file(tmp_path, "/sys/b", "")
    _file(tmp_path, "/sys/a", "")
    assert Sysfs(tmp_path).list("/sys") == ["a", "b"]
    assert Sysfs(tmp_path).list("/none") == []


class OneFileHangs(Sysfs):
    """Reads of /hangs wait for `gate`; every write is noted."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, timeout_s=0.3)
        self.gate, self.is_asked = threading.Event(), threading.Event()
        self.written: list[str] = []

    def read_now(self, path: str) -> str:
        self.is_asked.set()
        self.gate.wait()
        return "back"

    def write_now(self, path: str, text: str) -> None:
        self.written.append(text)


def test_a_write_behind_a_hanging_read_is_done_once_and_never_later(tmp_path: Path) -> None:
    sysfs = OneFileHangs(tmp_path)

    def read() -> None:
        with pytest.raises(SysfsTimeoutError):
            sysfs.read("/hangs")

    reader = threading.Thread(target=read)
    reader.start()
    sysfs.is_asked.wait()
    sysfs.write("/gpu/max_freq", "1300500000")
    reader.join()
    assert sysfs.written == ["1300500000"]
    stuck = sysfs._hung["/hangs"]
    sysfs.gate.set()
    assert stuck.completion.wait(5.0)
    sysfs.write("/gpu/max_freq", "114750000")
    assert sysfs.written == ["1300500000", "114750000"]
