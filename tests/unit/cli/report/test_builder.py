"""The report of a board from what the API tells of it."""

from tests.unit.cli.report import example

from powertrain.api.v1alpha1 import Figures, Front, Samples
from powertrain.session_history import Happening, SessionHistory
from powertrain_cli.report import builder, summary, timelines
from powertrain_cli.report.document import Basis, BoardFacts, MarkKind, Timeline

MODES = [str(sample.mode) for sample in example.samples()]


def history() -> SessionHistory:
    session_history = SessionHistory("2026-03-01T10:00:00Z")
    for second in range(100):
        session_history.add(float(second), 20.0 + second % 2, 0.1, MODES[0], 22.0)
    session_history.mark(50.0, Happening.GUARD, "above the limit")
    return session_history


def source(**changes: object) -> builder.Source:
    usual: dict[str, object] = {
        "node": "orin-1",
        "timeline": timelines.from_history(history(), "this run"),
        "samples": Samples.of(example.samples(), 16),
        "front": Front(),
        "facts": BoardFacts(name="orin-agx"),
        "mode": MODES[example.CHOSEN],
        "runner_up": MODES[example.RUNNER_UP],
        "observed": Figures(step_seconds=0.1, power_watts=20.6),
        "limit_w": 22.0,
    }
    return builder.Source(**{**usual, **changes})  # type: ignore[arg-type]


def test_a_history_becomes_the_time_line_with_its_marks() -> None:
    line = timelines.from_history(history(), "this run")
    assert line.at_s[:2] == (0.0, 1.0)
    assert max(each or 0.0 for each in line.power_max_w) == 21.0
    assert line.mode[0] == example.samples()[0].mode.human
    assert [(mark.kind, mark.text) for mark in line.marks] == [(MarkKind.GUARD, "above the limit")]


def test_the_choice_is_compared_with_presets_and_the_runner_up() -> None:
    board = builder.board(source())
    names = [each.name for each in board.comparisons]
    assert names == ["MAXN", "15 W preset", "30 W preset", "50 W preset", "runner-up"]
    assert {each.point.basis for each in board.comparisons[:-1]} == {Basis.PREDICTED}


def test_trials_above_the_limit_are_marked() -> None:
    over = [trial.point.power_w for trial in builder.board(source()).trials if trial.over_limit]
    assert over
    assert min(over) > 22.0


def test_the_summary_names_the_preset_within_the_limit_and_whether_it_was_kept() -> None:
    rows = summary.of_boards([builder.board(source())])
    assert "× as fast as NVIDIA's 15 W preset (predicted); no guard window above 22 W." in rows
    broken = summary.of_boards([builder.board(source(violations=3))])
    assert "above 22 W in 3 guard windows or readings." in broken


def test_nothing_measured_yet_is_said() -> None:
    empty = builder.board(source(samples=Samples(), observed=None, limit_w=None, message=""))
    assert summary.of_boards([empty]) == "Nothing measured yet."
    assert summary.of_boards([]) == "No board yet."


def test_boards_of_one_job_are_added_up_against_their_limits() -> None:
    boards = [builder.board(source(node=name)) for name in ("a", "b")]
    fleet = builder.fleet("job", boards)
    assert fleet is not None
    assert fleet.cap_w[0] == 44.0
    assert builder.fleet("job", boards[:1]) is None


def test_a_fine_time_line_takes_the_marks_and_modes_of_the_history() -> None:
    fine = Timeline(
        source="Prometheus",
        began_at="2026-03-01T09:59:50+00:00",
        at_s=(0.0, 9.0, 10.0, 60.0),
        power_mean_w=(1.0, 2.0, 3.0, 4.0),
        mode=(None,) * 4,
    )
    both = timelines.with_marks(fine, timelines.from_history(history(), "the job"))
    human = example.samples()[0].mode.human
    assert both.mode == (None, None, human, human)
    assert [mark.at_s for mark in both.marks] == [60.0]
    assert both.source == "Prometheus; events: the job"
