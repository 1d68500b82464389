"""What stands between a release and its end: jobs that hold a board, boards that are not as they were found."""

from __future__ import annotations

from typing import Any

import pytest

from powertrain_operator.uninstall import REFUSED, Remainder, Uninstall, remainder

Object = dict[str, Any]


def job(name: str, *holds: bool, phase: str = "Running") -> Object:
    status = {"phase": phase, "nodes": [{"holds": each} for each in holds]}
    return {"metadata": {"namespace": "a", "name": name}, "status": status}


def waiting(name: str, phase: str = "Queued", suspend: bool = False) -> Object:
    return {"metadata": {"namespace": "a", "name": name}, "spec": {"suspend": suspend}, "status": {"phase": phase}}


def board(name: str, session: str = "", reported: str = "", restored: bool = False) -> Object:
    spec = {"session": {"uid": session}} if session else {}
    return {"metadata": {"name": name}, "spec": spec, "status": {"session": {"uid": reported, "restored": restored}}}


@pytest.mark.parametrize(
    ("jobs", "boards", "expected"),
    [
        ([], [], Remainder((), ())),
        ([job("done", False, phase="Succeeded")], [board("free")], Remainder((), ())),
        ([job("one", False, True)], [board("b", "s")], Remainder(("a/one",), ("b",), ("a/one",))),
        ([job("ending", True, phase="Failed")], [board("b", "s")], Remainder(("a/ending",), ("b",))),
        (
            [{"metadata": {"namespace": "a", "name": "new"}}, waiting("next")],
            [],
            Remainder((), (), ("a/new", "a/next")),
        ),
        ([waiting("asleep", suspend=True), waiting("over", "Failed")], [], Remainder((), ())),
        ([], [board("b", "s", "s", restored=True)], Remainder((), ())),
        ([], [board("b", "s", "older", restored=True)], Remainder((), ("b",))),
        ([], [board("b", "s", "s")], Remainder((), ("b",))),
        ([], [{"metadata": {"name": "silent"}, "spec": {"session": {"uid": "s"}}}], Remainder((), ("silent",))),
    ],
)
def test_what_is_left(jobs: list[Object], boards: list[Object], expected: Remainder) -> None:
    assert remainder(jobs, boards) == expected
    assert bool(expected) == bool(expected.jobs or expected.boards)


class Site:
    """One board and its jobs; while somebody waits, who is suspended lets go and the next one comes."""

    def __init__(self, *jobs: Object) -> None:
        self.jobs = {each["metadata"]["name"]: each for each in jobs}
        self.releases: list[str] = []
        self.lines: list[str] = []
        self.now_s = 0.0
        self.uninstall = Uninstall(self, "here", self.lines.append, lambda: self.now_s, self.work)  # type: ignore[arg-type]

    @property
    def holder(self) -> str:
        return next((name for name, job in self.jobs.items() if job["status"].get("nodes")), "")

    def list(self, path: str, query: dict[str, str]) -> Object:
        items = list(self.jobs.values()) if path.endswith("trainingjobs") else [board("b", self.holder)]
        return {"metadata": {}, "items": items}

    def merge_patch(self, path: str, body: Object) -> None:
        name = path.rpartition("/")[2]
        if "spec" in body:
            self.jobs[name]["spec"] |= body["spec"]
        else:
            self.releases.append(name)

    def work(self, seconds: float) -> None:
        self.now_s += seconds
        if self.holder and self.jobs[self.holder]["spec"]["suspend"]:
            self.jobs[self.holder]["status"] = {"phase": "Suspended"}
        elif not self.holder:
            for each in [job for job in self.jobs.values() if not job["spec"]["suspend"]][:1]:
                each["status"] = {"phase": "Running", "nodes": [{"holds": True}]}


def test_a_forced_removal_gives_no_board_to_the_next_in_the_queue() -> None:
    running = waiting("first", "Running")
    running["status"]["nodes"] = [{"holds": True}]
    site = Site(running, waiting("next"))
    assert site.uninstall.release(force=False, timeout_s=60) == REFUSED
    assert site.lines[0] == "refused: these TrainingJobs hold boards: a/first"
    assert site.uninstall.release(force=True, timeout_s=60) == 0
    assert site.lines[-1] == "every board has its original settings again"
    assert [job["spec"]["suspend"] for job in site.jobs.values()] == [True, True]
    assert site.releases == ["b"]
    site.work(1.0)
    assert site.holder == ""
