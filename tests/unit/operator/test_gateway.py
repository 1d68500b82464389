"""What the operator sends of a part that it alone writes: what is other, or everything where nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from powertrain_kube import AwayError, Object
from powertrain_operator.observation import observation_of
from powertrain_operator.plan import ENVELOPE_MANAGER, Apply, ApplyStatus
from powertrain_operator.resources import RESOURCE_BY_KIND

from .fakes import FakeApi, WorkerHarness

NODE = RESOURCE_BY_KIND["PowerNode"]
PATH = "/apis/powertrain.io/v1alpha1/powernodes/a"
IDENTITY = {"apiVersion": NODE.api_version, "kind": NODE.name}
ENVELOPE = {"uid": "s", "limits": {"powerWatts": 30}, "prior": {"samples": {"steps": "1 2 3"}}}


class Server(FakeApi):
    """Keeps what is sent; `silent` does what is asked and does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, Object]] = []
        self.silent = False

    def merge_patch(self, path: str, body: Object, *, manager: str = "") -> Object:
        self.requests.append(("patch", body))
        return self._answer(super().merge_patch(path, body, manager=manager))

    def apply(self, path: str, body: Object, **how: Any) -> Object:
        self.requests.append(("apply", body))
        return self._answer(super().apply(path, body, **how))

    def _answer(self, body: Object) -> Object:
        if self.silent:
            raise AwayError("done, but not answered")
        return body


class GatewayHarness:
    """A gateway whose cache knows one PowerNode."""

    def __init__(self) -> None:
        self.rig = WorkerHarness()
        self.api = self.rig.worker.gateway._api = Server()  # type: ignore[assignment]
        stored = self.api.put(PATH, {**IDENTITY, "metadata": {"name": "a", "uid": "u"}, "spec": {"session": ENVELOPE}})
        self.rig.worker.cache.put(observation_of(NODE, stored))

    def envelope(self, uid: str = "u", **spec: Any) -> bool:
        body = {**IDENTITY, "metadata": {"name": "a"}, "spec": spec}
        return self.rig.worker.gateway.execute(Apply(body, uid=uid, manager=ENVELOPE_MANAGER))

    def status(self, **status: Any) -> bool:
        return self.rig.worker.gateway.execute(
            ApplyStatus({**IDENTITY, "metadata": {"name": "a"}, "status": status}, uid="u")
        )


@pytest.fixture
def desk() -> GatewayHarness:
    return GatewayHarness()


def test_only_what_is_other_is_sent_to_exactly_that_object(desk: GatewayHarness) -> None:
    assert desk.envelope(session={**ENVELOPE, "limits": {"powerWatts": 20}}, release="s")
    spec = {"session": {"limits": {"powerWatts": 20}}, "release": "s"}
    assert desk.api.requests == [("patch", {"metadata": {"uid": "u"}, "spec": spec})]
    assert desk.envelope()
    assert desk.api.requests[-1][1]["spec"] == {"session": None, "release": None}
    assert desk.api.objects[PATH]["spec"] == {}


def test_what_is_so_already_is_not_sent(desk: GatewayHarness) -> None:
    assert not desk.envelope(session=ENVELOPE)
    assert desk.api.requests == []


def test_a_status_goes_the_same_way(desk: GatewayHarness) -> None:
    assert desk.status(phase="Running", nodes=[{"name": "a"}])
    assert desk.status(phase="Running", nodes=[])
    assert [body["status"] for _, body in desk.api.requests] == [
        {"phase": "Running", "nodes": [{"name": "a"}]},
        {"nodes": []},
    ]


def test_after_a_write_that_was_not_answered_everything_is_applied(desk: GatewayHarness) -> None:
    desk.api.silent = True
    with pytest.raises(AwayError):
        desk.envelope(session={**ENVELOPE, "limits": {"powerWatts": 20}}, release="s")
    desk.api.silent = False
    assert desk.envelope(session={**ENVELOPE, "limits": {"powerWatts": 25}})
    verb, body = desk.api.requests[-1]
    assert (verb, body["metadata"]["uid"], body["spec"]["session"]["prior"]) == ("apply", "u", ENVELOPE["prior"])
    assert "release" not in desk.api.objects[PATH]["spec"]
    assert desk.envelope(session=ENVELOPE)
    assert desk.api.requests[-1] == (
        "patch",
        {"metadata": {"uid": "u"}, "spec": {"session": {"limits": {"powerWatts": 30}}}},
    )


def test_of_another_object_of_the_name_nothing_is_assumed(desk: GatewayHarness) -> None:
    assert desk.envelope("other", session=ENVELOPE)
    assert desk.api.requests[-1][0] == "apply"
