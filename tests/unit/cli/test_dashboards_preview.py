"""The preview of the dashboards: what it changes in Grafana's sources, how it sets Grafana up, what it draws."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from powertrain_devcluster.builds import grafana
from powertrain_devcluster.builds.progress import Silent
from powertrain_devcluster.errors import ClusterError, MissingToolError
from powertrain_devcluster.paths import source_root
from powertrain_devcluster.preview.__main__ import HEIGHTS, pictures
from powertrain_devcluster.preview.recording import SPAN, Recording, load
from powertrain_devcluster.tools.grafana import Grafana

RECORDING = Recording(Path("recording"), 1000.0, 1300.0, 1600.0)


def test_the_sources_of_grafana_are_pinned_with_their_checksum() -> None:
    module = grafana.module()
    assert module.pin is not None
    sums = (module.pin / "go.sum").read_text(encoding="utf-8")
    assert f"{module.path} {module.version} h1:" in sums


def test_grafana_that_is_not_built_needs_node_and_says_so(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    go = tools / "go"
    go.write_text("#!/bin/sh\necho go version go1.99.0 linux/amd64\n", encoding="utf-8")
    go.chmod(0o755)
    with pytest.raises(MissingToolError, match=r"Node\.js"):
        grafana.programs(Silent(), {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path)})


def test_sources_are_prepared_to_build_from_the_registry_alone(tmp_path: Path) -> None:
    write_sources(tmp_path)
    grafana.prepare(tmp_path)
    assert json.loads((tmp_path / "package.json").read_text())["dependencies"]["xlsx"] == "0.18.5"
    assert (tmp_path / ".yarnrc.yml").read_text() == "nodeLinker: node-modules\n"
    assert (tmp_path / "public/vendor/flot/jquery.flot.time.js").read_text() == ""


def test_sources_of_another_release_are_refused(tmp_path: Path) -> None:
    write_sources(tmp_path)
    (tmp_path / ".yarnrc.yml").write_text("nodeLinker: something\n", encoding="utf-8")
    with pytest.raises(ClusterError, match="nodeLinker: pnp"):
        grafana.prepare(tmp_path)


def write_sources(root: Path) -> None:
    """Write the three files that are changed, as the pinned release has them."""
    package = {"dependencies": {"xlsx": "https://cdn.sheetjs.com/xlsx-0.19.1/xlsx-0.19.1.tgz"}}
    (root / "package.json").write_text(json.dumps(package), encoding="utf-8")
    (root / ".yarnrc.yml").write_text("nodeLinker: pnp\n", encoding="utf-8")
    webpack = root / "scripts/webpack/webpack.common.js"
    webpack.parent.mkdir(parents=True)
    webpack.write_text("symlinks: false\n", encoding="utf-8")


def test_grafana_is_set_up_with_the_charts_dashboards_and_one_source(tmp_path: Path) -> None:
    dashboards = source_root() / "charts/powertrain/files/dashboards"
    server = Grafana(tmp_path / "programs", tmp_path, dashboards, "http://127.0.0.1:9090")
    server.configure()
    sources = json.loads((tmp_path / "provisioning/datasources/all.yaml").read_text())["datasources"]
    assert [(each["type"], each["url"]) for each in sources] == [("prometheus", "http://127.0.0.1:9090")]
    provider = json.loads((tmp_path / "provisioning/dashboards/all.yaml").read_text())["providers"][0]
    assert provider["options"]["path"] == str(dashboards)
    settings = (tmp_path / "grafana.ini").read_text()
    assert "http_addr = 127.0.0.1" in settings
    assert "reporting_enabled = false" in settings


def test_every_dashboard_of_the_chart_has_a_picture() -> None:
    files = (source_root() / "charts/powertrain/files/dashboards").glob("*.json")
    assert {file.stem for file in files} == {each.dashboard for each in pictures(RECORDING)} == set(HEIGHTS)


def test_a_job_is_drawn_until_shortly_before_its_end_and_the_fleet_over_the_whole_recording() -> None:
    spans = {each.name: parse_qs(urlsplit(each.path).query) for each in pictures(RECORDING)}
    assert (spans["dashboard-fleet"]["from"], spans["dashboard-fleet"]["to"]) == (["1000000"], ["1600000"])
    assert spans["dashboard-job"]["to"] == ["1280000"]
    assert spans["dashboard-job"]["var-job"] == ["default/demo"]
    assert spans["dashboard-node"]["var-node"] == ["agx"]


def test_a_recording_is_found_again(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    (tmp_path / SPAN).write_text('{"began_s": 1000.0, "job_ended_s": 1300.0, "ended_s": 1600.0}', encoding="utf-8")
    assert load(tmp_path) == Recording(tmp_path, 1000.0, 1300.0, 1600.0)
