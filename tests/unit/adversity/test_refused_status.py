"""A status that the API server refuses, or that can't be built: what was decided is written all the same."""

from __future__ import annotations

import io

import pytest

from powertrain.api.v1alpha1 import Figures, NodeFigures, Phase, SessionStatus, TrainingProgress
from powertrain_agent.link.contact import Contact
from powertrain_agent.link.status import StatusWriter
from powertrain_agent.simulate import ManualClock
from powertrain_kube import InvalidError, Object
from powertrain_kube.log import Log

from ..agent.test_link_status import FakeStatusApi

RESTORED = SessionStatus(
    uid="s-1",
    phase=Phase.ENDED,
    restored=True,
    message="over",
    training=TrainingProgress(steps=2**53),
    observed=Figures(step_seconds=1e300),
)


class StrictStatusApi(FakeStatusApi):
    """An API server that refuses every status with figures."""

    def merge_patch(self, path: str, body: Object) -> Object:
        if (body["status"].get("session") or {}).get("observed"):
            raise InvalidError("status.session.observed: no such number")
        return super().merge_patch(path, body)


def written(api: FakeStatusApi, figures: NodeFigures | Exception, seconds: float = 120.0) -> list[Object]:
    """Report that a board is restored, and return the sessions that were written within some time."""

    def look() -> NodeFigures:
        if isinstance(figures, Exception):
            raise figures
        return figures

    clock = ManualClock(0.0)
    writer = StatusWriter(api, "n", look, Contact(clock, lambda since: None, lambda: None), Log(io.StringIO()), clock)
    writer.object_seen(True)
    writer.update(lambda before: before.model_copy(update={"session": RESTORED}), urgent=True)
    while clock() < seconds:
        clock.advance(0.5)
        if writer.due_in_s() == 0.0:
            writer.write()
    return [body["session"] for body in api.bodies]


@pytest.mark.parametrize(
    ("api", "figures"),
    [(StrictStatusApi(), NodeFigures(watts=10.0)), (FakeStatusApi(), ValueError("a sensor of nonsense"))],
    ids=["refused by the server", "not to be built"],
)
def test_that_a_board_is_restored_is_written_without_its_figures(
    api: FakeStatusApi, figures: NodeFigures | Exception
) -> None:
    sessions = written(api, figures)
    assert sessions
    assert {(session["uid"], session["phase"], session["restored"]) for session in sessions} == {("s-1", "Ended", True)}
    assert all(session.get("observed") is None for session in sessions)
