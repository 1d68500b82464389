"""What the operator's command says where it can't start."""

from __future__ import annotations

from pathlib import Path

import pytest

from powertrain_operator.main import NO_CLUSTER, serve
from powertrain_operator.settings import Settings


def start(kubeconfig: Path | None) -> int:
    return serve(kubeconfig, Settings(), lambda *_, **__: None, {}, lambda *_: ())


def test_outside_a_cluster_it_says_how_to_name_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert start(None) == NO_CLUSTER
    assert "outside a cluster, name one with --kubeconfig" in capsys.readouterr().err
    assert start(tmp_path / "none") == NO_CLUSTER
    output = capsys.readouterr().err
    assert str(tmp_path / "none") in output
    assert "outside a cluster" not in output
