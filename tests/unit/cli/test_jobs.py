"""The verbs of a cluster, against a recorded one: a finished job, a running one on a small board, a queued one."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from powertrain.session_history import Happening, SessionHistory
from powertrain_cli import completion
from powertrain_cli.jobs import documents
from powertrain_cli.report import timelines

Command = Callable[..., Any]
RECORDED = json.loads((Path(__file__).parent / "data/cluster.json").read_text())
OURS = "/apis/powertrain.io/v1alpha1"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


class RecordedApi:
    """An API server that knows one moment of a cluster; what is written to it is kept for the test to see."""

    def __init__(self) -> None:
        self.objects: dict[str, list[dict[str, Any]]] = copy.deepcopy(RECORDED)
        self.forbidden: set[str] = set()
        self.forbidden_cluster_wide: set[str] = set()
        self.ahead = timedelta()
        self.writes: list[tuple[str, str, Any]] = []
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for lease in self.objects["/apis/coordination.k8s.io/v1/leases"]:
            lease["spec"]["renewTime"] = now

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        kind = path.rsplit("/", 1)[0] if self._is_name(path) else path
        kind = self._collection(kind)
        if kind in self.forbidden or path in self.forbidden_cluster_wide:
            words = f'{kind.rsplit("/", 1)[1]} is forbidden: User "eve" cannot {method.lower()} resource'
            return 403, {"kind": "Status", "message": words, "reason": "Forbidden"}
        if kind not in self.objects:
            return 404, {"kind": "Status", "message": "the server could not find the requested resource"}
        if method != "GET":
            self.writes.append((method, path, body))
        if method == "POST":
            if any(each["metadata"]["name"] == body["metadata"]["name"] for each in self.objects[kind]):
                return 409, {"kind": "Status", "message": "exists", "reason": "AlreadyExists"}
            return 201, body
        if not self._is_name(path):
            return 200, {"items": self._listed(kind, path)}
        matches = [each for each in self.objects[kind] if each["metadata"]["name"] == path.rsplit("/", 1)[1]]
        return (200, matches[0]) if matches else (404, {"kind": "Status", "message": "not found"})

    def _listed(self, kind: str, path: str) -> list[dict[str, Any]]:
        where = path.split("/namespaces/")[1].split("/", maxsplit=1)[0] if "/namespaces/" in path else None
        return [each for each in self.objects[kind] if where in (None, each["metadata"].get("namespace"))]

    def _is_name(self, path: str) -> bool:
        return self._collection(path) not in self.objects and self._collection(path.rsplit("/", 1)[0]) in self.objects

    @staticmethod
    def _collection(path: str) -> str:
        before, _, after = path.partition("/namespaces/")
        return f"{before}/{after.split('/', 1)[1]}" if "/" in after else path


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedApi]:
    api = RecordedApi()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            code, document = api.answer(self.command, urlsplit(self.path).path, body)
            data = json.dumps(document).encode()
            self.send_response_only(code)
            self.send_header("Date", format_datetime(datetime.now(UTC) + api.ahead, usegmt=True))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815 - the names that the base class looks for

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, server.server_address[1])))
    yield api
    server.shutdown()
    thread.join()
    server.server_close()


def kubeconfig(folder: Path, port: int) -> Path:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path.write_text(json.dumps(document))
    return path


def test_list_says_what_where_how_many_watts_and_how_long(cluster: RecordedApi, powertrain: Command) -> None:
    lines = {line["name"]: line for line in json.loads(powertrain("list", "--json").out)["jobs"]}
    assert (lines["mobilenet-v3"]["phase"], lines["third"]["phase"]) == ("Succeeded", "Queued")
    assert (lines["resnet18"]["nodes"], lines["resnet18"]["limit_w"]) == (["nano-1"], 25)
    page = powertrain("list").out
    assert "resnet18" in page
    assert "Running" in page


def test_colours_are_for_terminals_only(
    cluster: RecordedApi, powertrain: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" not in powertrain("list").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in powertrain("list").out


def test_a_namespace_without_jobs_is_said(cluster: RecordedApi, powertrain: Command) -> None:
    assert powertrain("list", "-n", "empty").out == "no TrainingJob in namespace empty\n"


def test_status_shows_modes_watts_progress_and_what_is_predicted_and_observed(
    cluster: RecordedApi, powertrain: Command
) -> None:
    document = json.loads(powertrain("status", "resnet18", "--json").out)
    board = document["boards"][0]
    assert (board["node"], board["device"], board["phase"]) == ("nano-1", "orin-nano", "Running")
    assert board["predicted"]["power_w"] == pytest.approx(board["observed"]["power_w"], rel=0.1)
    assert len(board["tried"]) >= 10
    page = powertrain("status", "resnet18").out
    assert "of 25 W" in page
    assert "% trained" in page
    assert "predicted:" in page
    assert page.count("the runner-up takes") == 1, "what a board says is not said twice"
    assert "waits for its turn" in powertrain("status", "third").out


def test_status_shows_why_a_batch_size_was_chosen(cluster: RecordedApi, powertrain: Command) -> None:
    jobs = cluster.objects["/apis/powertrain.io/v1alpha1/trainingjobs"]
    job = next(each for each in jobs if each["metadata"]["name"] == "resnet18")
    assert json.loads(powertrain("status", "resnet18", "--json").out)["batch"] is None
    job["status"]["batch"] = {
        "chosen": 8,
        "timeAgainstLargest": 0.8,
        "reason": "batch size 8: least time to accuracy of 2 batch sizes; 0.80 × the time of the largest",
        "sizes": [
            {"batchSize": 8, "state": "Profiled", "relativeTime": 0.8},
            {"batchSize": 32, "state": "Profiled", "relativeTime": 1.0},
            {"batchSize": 64, "state": "Excluded", "reason": "OOMKilled"},
        ],
    }
    document = json.loads(powertrain("status", "resnet18", "--json").out)["batch"]
    assert (document["chosen"], document["time_against_largest"]) == (8, 0.8)
    page = powertrain("status", "resnet18").out
    assert "0.80 × the time of the largest" in page
    assert "OOMKilled" in page


def test_explain_names_the_choice_the_runner_up_the_front_and_the_ranking(
    cluster: RecordedApi, powertrain: Command
) -> None:
    document = json.loads(powertrain("explain", "mobilenet-v3", "--json").out)
    board = document["boards"][0]
    assert "the runner-up takes" in board["message"]
    assert board["chosen"]["power_w"] <= 30
    assert board["excluded_above_limit"] > 0
    assert len(board["front"]) > 50
    ranked = document["ranking"]
    assert [each["node"] for each in ranked] == ["orin-1", "nano-1"]
    assert ranked[0]["profile"].startswith("mobilenet-v3-b16-orin-agx")
    assert ranked[1]["held_by"] == "default/resnet18"
    assert "boards, best for this job first" in powertrain("explain", "mobilenet-v3").out


def test_explain_compares_with_the_runner_up_also_while_another_mode_is_checked(
    cluster: RecordedApi, powertrain: Command
) -> None:
    jobs = cluster.objects["/apis/powertrain.io/v1alpha1/trainingjobs"]
    job = next(each for each in jobs if each["metadata"]["name"] == "mobilenet-v3")
    job["status"]["nodes"][0]["message"] = "check 12c/1.57C/0.62G/2.13M"
    page = powertrain("explain", "mobilenet-v3").out
    assert "check 12c/1.57C/0.62G/2.13M" in page
    assert page.count("the runner-up takes") == 1


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ({}, "no limit"),
        ({"powerWatts": 30, "guardWindowSeconds": 3, "powerStatistic": "Mean", "timeZone": "UTC"}, "30 W"),
        ({"powerWatts": 30.5, "powerStatistic": "Peak"}, "30.5 W at the peak"),
        ({"trainingSeconds": 1800, "hardLimitWatts": 50}, "no reading above 50 W, 1800 s for the training"),
        (
            {"powerWatts": 40, "powerSchedule": [{"from": "22:00", "to": "06:00", "watts": 20}]},
            "40 W, 20 W from 22:00 to 06:00",
        ),
    ],
)
def test_limits_are_told_in_words(constraints: dict[str, Any], words: str) -> None:
    assert documents.limits(constraints) == words


def test_explain_tells_why_a_board_is_out_of_the_question(cluster: RecordedApi, powertrain: Command) -> None:
    node = next(each for each in cluster.objects["/api/v1/nodes"] if each["metadata"]["name"] == "orin-1")
    node["spec"]["unschedulable"] = True
    ranked = json.loads(powertrain("explain", "mobilenet-v3", "--json").out)["ranking"]
    assert {each["node"]: each["excluded"] for each in ranked} == {"nano-1": "", "orin-1": "cordoned"}


def test_front_is_listed_and_drawn(cluster: RecordedApi, powertrain: Command, tmp_path: Path) -> None:
    picture = tmp_path / "front.svg"
    document = json.loads(powertrain("front", "mobilenet-v3", "--plot", str(picture), "--json").out)
    assert len(document["fronts"][0]["measured"]) >= 15
    for each in document["fronts"]:
        power_w = [point["power_w"] for point in each["predicted"]]
        assert power_w == sorted(power_w, reverse=True), "a slower point takes less power, or it is not of the front"
    text = picture.read_text()
    assert "limit 30 W" in text
    assert "chosen:" in text
    assert "chosen:" in powertrain("front", "resnet18").out


def test_a_front_that_is_not_there_yet_is_no_solution(cluster: RecordedApi, powertrain: Command) -> None:
    result = powertrain("front", "third")
    assert result.code == 1
    assert "has no board yet: waits for its turn" in result.err


def test_nodes_lists_boards_with_job_and_limit(cluster: RecordedApi, powertrain: Command) -> None:
    lines = {line["node"]: line for line in json.loads(powertrain("nodes", "--json").out)["nodes"]}
    assert (lines["nano-1"]["job"], lines["nano-1"]["limit_w"]) == ("default/resnet18", 25)
    assert lines["nano-1"]["annotations"]["powertrain.io/training-job"] == "default/resnet18"
    assert lines["orin-1"]["usable"]
    cluster.objects["/apis/coordination.k8s.io/v1/leases"].clear()
    assert "its agent is silent" in powertrain("nodes").out


def test_why_pending_tells_it_board_by_board(cluster: RecordedApi, powertrain: Command) -> None:
    document = json.loads(powertrain("why-pending", "third", "--json").out)
    assert document["pending"]
    assert {each["node"]: each["held_by"] for each in document["nodes"]}["nano-1"] == "default/resnet18"
    assert "waits for its turn" in powertrain("why-pending", "third").out
    assert powertrain("why-pending", "resnet18").out == "resnet18 is not pending: Running on nano-1\n"


def test_profiles_lists_what_was_measured(cluster: RecordedApi, powertrain: Command) -> None:
    lines = json.loads(powertrain("profiles", "--json").out)["profiles"]
    assert {(line["workload"], line["device"]) for line in lines} == {
        ("mobilenet-v3", "orin-agx"),
        ("resnet18", "orin-nano"),
    }
    assert {line["state"] for line in lines} == {"measured"}
    assert "mobilenet-v3" in powertrain("profiles", "-A").out


def test_submit_creates_the_job_with_another_name_and_budget(cluster: RecordedApi, powertrain: Command) -> None:
    result = powertrain("submit", str(EXAMPLES / "mobilenet-v3.yaml"), "--name", "mine", "--power", "20")
    assert (result.code, "created mine" in result.out) == (0, True)
    method, path, body = cluster.writes[-1]
    assert (method, path) == ("POST", f"{OURS}/namespaces/default/trainingjobs")
    assert (body["metadata"]["name"], body["spec"]["constraints"]["powerWatts"]) == ("mine", 20)


@pytest.mark.parametrize(("instrumentation", "warns"), [("Auto", True), ("SDK", False)])
def test_submit_warns_of_a_command_whose_steps_can_not_be_counted(
    cluster: RecordedApi, powertrain: Command, tmp_path: Path, instrumentation: str, warns: bool
) -> None:
    body = yaml.safe_load((EXAMPLES / "mobilenet-v3.yaml").read_text(encoding="utf-8"))
    body["metadata"]["name"] = "mine"
    body["spec"]["workload"]["instrumentation"] = instrumentation
    body["spec"]["workload"]["template"]["spec"]["containers"][0] |= {"command": ["python", "-I"], "args": ["train.py"]}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    result = powertrain("submit", str(file))
    assert (result.code, "created mine" in result.out) == (0, True)
    assert ("python -I: -I makes Python ignore PYTHONPATH" in result.err) is warns


@pytest.mark.parametrize(("constraints", "code"), [("null", 0), ("{}", 0), ("30", 2)])
def test_a_budget_can_be_given_where_the_manifest_has_none(
    cluster: RecordedApi, powertrain: Command, tmp_path: Path, constraints: str, code: int
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"kind: TrainingJob\nmetadata: {{name: mine}}\nspec: {{constraints: {constraints}}}\n")
    result = powertrain("submit", str(file), "--power", "20")
    assert result.code == code
    if code:
        assert (result.err, cluster.writes) == (f"error: {file}: spec.constraints must be a mapping, not 30\n", [])
    else:
        assert cluster.writes[-1][2]["spec"]["constraints"] == {"powerWatts": 20}


def test_submit_of_a_name_that_is_taken_says_what_to_do(cluster: RecordedApi, powertrain: Command) -> None:
    result = powertrain("submit", str(EXAMPLES / "mobilenet-v3.yaml"))
    assert result.code == 2
    assert "give another --name" in result.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: ConfigMap\n", "holds ConfigMap: submit takes a file with one TrainingJob"),
        ("", "holds nothing"),
        ("a: [", "is not valid YAML"),
        ("kind: TrainingJob\nmetadata: {name: x}\n", "needs metadata and spec"),
        ("- a\n- b\n", "holds no Kubernetes object: submit takes a file with one TrainingJob"),
    ],
)
def test_a_file_that_is_no_training_job_is_refused(
    cluster: RecordedApi, powertrain: Command, tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    result = powertrain("submit", str(file))
    assert (result.code, words in result.err, cluster.writes) == (2, True, [])


def test_restore_asks_the_operator_and_takes_the_request_back(cluster: RecordedApi, powertrain: Command) -> None:
    node = next(each for each in cluster.objects[f"{OURS}/powernodes"] if each["metadata"]["name"] == "orin-1")
    del node["spec"]["session"]
    result = powertrain("restore", "orin-1")
    assert (result.code, result.out) == (0, "original settings of orin-1 restored; no job uses it\n")
    requests = [body["metadata"]["annotations"]["powertrain.io/release-requested"] for _, _, body in cluster.writes]
    assert requests[0] is not None
    assert requests[-1] is None


def test_restore_of_a_held_board_is_refused_in_the_operators_words(cluster: RecordedApi, powertrain: Command) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": now,
        "note": "the node is held by resnet18",
    }
    cluster.objects["/apis/events.k8s.io/v1/events"] = [event]
    result = powertrain("restore", "nano-1")
    assert (result.code, result.out) == (1, "refused: the node is held by resnet18\n")


def test_an_unknown_job_is_bad_input_and_the_known_ones_are_named(cluster: RecordedApi, powertrain: Command) -> None:
    result = powertrain("status", "nope")
    assert (result.code, result.err) == (
        2,
        "error: no TrainingJob 'nope' in namespace 'default'; there are: mobilenet-v3, resnet18, third\n",
    )


@pytest.mark.parametrize("verb", [["list"], ["nodes"], ["status", "x"], ["profiles"], ["restore", "x"]])
def test_a_cluster_without_the_kinds_is_one_clear_line(
    cluster: RecordedApi, powertrain: Command, verb: list[str]
) -> None:
    for kind in ("trainingjobs", "powernodes", "powerprofiles", "powerpolicies"):
        del cluster.objects[f"{OURS}/{kind}"]
    result = powertrain(*verb)
    assert result.code == 3
    assert "install PowerTrain there first" in result.err
    assert result.err.count("\n") == 1


def test_missing_permission_is_one_clear_line(cluster: RecordedApi, powertrain: Command) -> None:
    cluster.forbidden.add(f"{OURS}/trainingjobs")
    result = powertrain("list")
    assert (result.code, result.err.startswith('error: no permission: trainingjobs is forbidden: User "eve"')) == (
        3,
        True,
    )


def test_what_may_not_be_listed_is_named_and_the_rest_is_shown(cluster: RecordedApi, powertrain: Command) -> None:
    cluster.forbidden |= {"/api/v1/pods", "/apis/batch/v1/jobs"}
    result = powertrain("why-pending", "third")
    assert (result.code, "may not list jobs, pods" in result.err) == (0, True)


@pytest.mark.parametrize("verb", [["explain", "mobilenet-v3"], ["why-pending", "third"], ["nodes"]])
def test_who_may_see_one_namespace_is_told_of_it(cluster: RecordedApi, powertrain: Command, verb: list[str]) -> None:
    cluster.forbidden_cluster_wide |= {f"{OURS}/trainingjobs", f"{OURS}/powerprofiles", "/api/v1/pods"}
    result = powertrain(*verb)
    assert result.code == 0
    hidden = "trainingjobs of other namespaces, powerprofiles of other namespaces, pods of other namespaces"
    assert result.err == f"warning: these credentials may not list {hidden}: what follows from them is missing\n"
    assert "orin-1" in result.out
    document = json.loads(powertrain(*verb, "--json").out)
    assert ", ".join(document["hidden"]) == hidden


def test_a_job_that_may_be_read_but_not_listed_is_explained(cluster: RecordedApi, powertrain: Command) -> None:
    own = f"{OURS}/namespaces/default/trainingjobs"
    cluster.forbidden_cluster_wide |= {f"{OURS}/trainingjobs", own}
    cluster.forbidden |= {f"{OURS}/powernodes", f"{OURS}/powerpolicies", f"{OURS}/powerprofiles"}
    result = powertrain("explain", "mobilenet-v3")
    assert (result.code, "may not list trainingjobs, powernodes" in result.err) == (0, True)
    assert "best for this job first" not in result.out
    assert powertrain("why-pending", "third").out.startswith("Queued: waits for its turn")


def test_a_node_or_lease_that_may_not_be_seen_is_held_against_no_board(
    cluster: RecordedApi, powertrain: Command
) -> None:
    cluster.forbidden.add("/apis/coordination.k8s.io/v1/leases")
    assert "silent" not in powertrain("nodes").out
    cluster.forbidden.add("/api/v1/nodes")
    lines = json.loads(powertrain("nodes", "--json").out)["nodes"]
    assert {line["problem"] for line in lines} == {"unknown: these credentials may not list nodes"}


def test_nodes_without_the_right_to_see_them_is_one_clear_line(cluster: RecordedApi, powertrain: Command) -> None:
    cluster.forbidden.add(f"{OURS}/powernodes")
    result = powertrain("nodes")
    assert (result.code, result.out, result.err.count("\n")) == (3, "", 1)
    assert result.err.startswith("error: no permission: powernodes is forbidden")


def test_times_are_counted_by_the_servers_clock(cluster: RecordedApi, powertrain: Command) -> None:
    """Whoever asks may have a clock that is off, and so may a board: the server notes itself when a Lease changed."""
    cluster.ahead = timedelta(hours=2)
    now = datetime.now(UTC) + cluster.ahead
    for lease in cluster.objects["/apis/coordination.k8s.io/v1/leases"]:
        lease["spec"]["renewTime"] = "1970-01-01T00:00:00.000000Z"
        lease["metadata"]["managedFields"] = [{"time": now.strftime("%Y-%m-%dT%H:%M:%SZ")}]
    for job in cluster.objects[f"{OURS}/trainingjobs"]:
        job["metadata"]["creationTimestamp"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert {line["usable"] for line in json.loads(powertrain("nodes", "--json").out)["nodes"]} == {True}
    assert all(abs(line["age_s"]) < 60 for line in json.loads(powertrain("list", "--json").out)["jobs"])


def test_no_kubeconfig_and_no_server_are_told_apart(
    powertrain: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    missing = powertrain("list")
    assert (missing.code, "there is no kubeconfig" in missing.err) == (3, True)
    away = powertrain("list", "--kubeconfig", str(kubeconfig(tmp_path, 1)))
    assert (away.code, "no cluster answers at http://127.0.0.1:1" in away.err) == (3, True)
    assert "is it up? Name another one with --kubeconfig or $KUBECONFIG" in away.err
    for text, words in (("a: [", "while parsing a flow node"), ("just words", "it holds no mapping")):
        (tmp_path / "bad").write_text(text)
        bad = powertrain("list", "--kubeconfig", str(tmp_path / "bad"))
        assert (bad.code, f"can't be used as a kubeconfig: {words}" in bad.err) == (3, True)


def test_report_writes_one_page_about_a_job(powertrain: Command, cluster: RecordedApi, tmp_path: Path) -> None:
    name = next(job["metadata"]["name"] for job in RECORDED[f"{OURS}/trainingjobs"] if job["status"].get("nodes"))
    target = tmp_path / "job.html"
    assert powertrain("report", name, "-o", target).code == 0
    page = target.read_text(encoding="utf-8")
    document = json.loads(powertrain("report", name, "--json").out)
    assert document["name"] == name
    assert document["boards"][0]["trials"]
    assert "What was tried, in order" in page
    assert "name a Prometheus server with --prometheus" in page


def with_history(cluster: RecordedApi, *, ended: bool) -> str:
    """Let a recorded job have a history, with itself or on its board only; return the job's name."""
    jobs = cluster.objects[f"{OURS}/trainingjobs"]
    job = next(each for each in jobs if each["status"].get("nodes"))
    node = job["status"]["nodes"][0]
    history = SessionHistory("2026-03-01T10:00:00Z")
    for second in range(30):
        history.add(float(second), 20.0, 0.1, node["mode"], 30.0)
    history.mark(12.0, Happening.GUARD, "the guard lowered the mode")
    if ended:
        node["history"] = history.to_text()
    else:
        board = next(b for b in cluster.objects[f"{OURS}/powernodes"] if b["metadata"]["name"] == node["name"])
        board["status"]["history"] = {"session": node["session"], "data": history.to_text()}
    return str(job["metadata"]["name"])


@pytest.mark.parametrize(("ended", "source"), [(True, timelines.FROM_JOB), (False, timelines.FROM_BOARD)])
def test_report_shows_the_history_of_a_session_and_names_its_source(
    powertrain: Command, cluster: RecordedApi, tmp_path: Path, ended: bool, source: str
) -> None:
    name = with_history(cluster, ended=ended)
    line = json.loads(powertrain("report", name, "--json").out)["boards"][0]["timeline"]
    assert (line["source"], len(line["at_s"]), line["marks"][0]["kind"]) == (source, 30, "guard")
    assert powertrain("report", name, "-o", tmp_path / "x.html").code == 0
    assert f"Source: {source.replace(chr(39), '&#x27;')}" in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_report_falls_back_to_the_history_where_prometheus_does_not_answer(
    powertrain: Command, cluster: RecordedApi, tmp_path: Path
) -> None:
    name = with_history(cluster, ended=True)
    result = powertrain("report", name, "-o", tmp_path / "x.html", "--prometheus", "http://127.0.0.1:9")
    assert result.code == 0
    assert f"the page shows {timelines.FROM_JOB} instead" in " ".join(result.err.split())


def test_report_says_that_a_prometheus_does_not_answer(
    powertrain: Command, cluster: RecordedApi, tmp_path: Path
) -> None:
    name = next(job["metadata"]["name"] for job in RECORDED[f"{OURS}/trainingjobs"] if job["status"].get("nodes"))
    result = powertrain("report", name, "-o", tmp_path / "x.html", "--prometheus", "http://127.0.0.1:9")
    assert result.code == 3
    assert "no answer from Prometheus at http://127.0.0.1:9" in " ".join(result.err.split())


def test_explain_says_what_was_gained_against_presets(powertrain: Command, cluster: RecordedApi) -> None:
    name = next(job["metadata"]["name"] for job in RECORDED[f"{OURS}/trainingjobs"] if job["status"].get("nodes"))
    board = json.loads(powertrain("explain", name, "--json").out)["boards"][0]
    assert "of the speed of MAXN" in board["gained"]
    assert f"gained: {board['gained']}" in powertrain("explain", name).out


SELF_CHECK = {
    "at": "2026-03-01T10:00:00Z",
    "works": True,
    "verdict": "Jetson AGX Orin (L4T 36.4): read only; does not work: memory clock.",
    "mountFamily": "orin",
    "knobs": [
        {"knob": "gpu", "usable": True, "shows": "1300500000 Hz"},
        {"knob": "emc", "usable": False, "reason": "debugfs is not mounted", "fix": "mount debugfs on the host"},
    ],
    "hints": ["the supply shows 19 V"],
}


def test_doctor_of_a_node_shows_its_agents_last_self_check(powertrain: Command, cluster: RecordedApi) -> None:
    board = cluster.objects[f"{OURS}/powernodes"][0]
    name = board["metadata"]["name"]
    without = powertrain("doctor", name)
    assert (without.code, "reports no self-check" in without.err) == (3, True)
    board["status"]["selfCheck"] = SELF_CHECK
    result = powertrain("doctor", name)
    text = " ".join(result.out.split())
    assert result.code == 0
    for words in (
        "memory clock",
        "debugfs is not mounted",
        "mount debugfs on the host",
        "orin",
        "the supply shows 19 V",
    ):
        assert words in text
    assert json.loads(powertrain("doctor", name, "--json").out)["knobs"][0]["usable"] is True
    board["status"]["selfCheck"] = {**SELF_CHECK, "works": False}
    assert powertrain("doctor", name).code == 1
    assert not cluster.writes
    assert "there are:" in powertrain("doctor", "nobody").err


def test_report_of_a_power_budget_stacks_its_boards_against_the_cap(
    powertrain: Command, cluster: RecordedApi, tmp_path: Path
) -> None:
    with_history(cluster, ended=False)
    boards = [each["metadata"]["name"] for each in cluster.objects[f"{OURS}/powernodes"]]
    board_rows = [{"name": name, "state": "Governed", "watts": 20, "job": "default/a"} for name in boards]
    status = {"capWatts": 60, "drawnWatts": 41, "boards": board_rows, "forecast": {"seconds": 600, "equalSeconds": 900}}
    cluster.objects[f"{OURS}/powerbudgets"] = [{"metadata": {"name": "site"}, "spec": {"watts": 60}, "status": status}]
    document = json.loads(powertrain("report", "powerbudget/site", "--json").out)
    fleet = document["fleet"]
    assert [each["node"] for each in fleet["boards"]] == boards
    assert any(value == 20.0 for each in fleet["boards"] for value in each["power_w"])
    assert set(fleet["cap_w"]) == {60.0}
    assert [each["seconds"] for each in fleet["makespans"]] == [600, 900]
    target = tmp_path / "site.html"
    assert powertrain("report", "pb/site", "-o", target).code == 0
    assert "equal shares would take 1.50× as long (predicted)" in target.read_text(encoding="utf-8")
    assert "there are: site" in powertrain("report", "pb/other").err


def test_status_says_what_was_gained_and_by_which_reference(powertrain: Command, cluster: RecordedApi) -> None:
    board = json.loads(powertrain("status", "mobilenet-v3", "--json").out)["boards"][0]
    assert "as fast as NVIDIA's 30 W preset (predicted)" in board["gained"]
    assert "of the speed of MAXN" in board["gained"]
    assert board["reference"] == "orin-agx-resnet18"
    assert f"gained: {board['gained']}" in " ".join(powertrain("status", "mobilenet-v3", "--once").out.split())


def test_jobs_and_nodes_of_the_cluster_are_completed(cluster: RecordedApi) -> None:
    assert completion.jobs("m") == ["mobilenet-v3"]
    assert completion.nodes("nano") == ["nano-1"]
