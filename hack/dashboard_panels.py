"""Builds dashboards with Grafana's own types: how lines, bars, numbers and axes look, and how panels are laid out."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BarGaugeNamePlacement,
    BarGaugeValueMode,
    BigValueColorMode,
    BigValueGraphMode,
    GraphThresholdsStyleMode,
    LineInterpolation,
    ScaleDistribution,
    StackingMode,
    VizOrientation,
)

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "powertrain"
# The variable by which a panel is drawn once for each board.
BOARD_VARIABLE = "board"
# One colour for one meaning, on every panel: a limit is red and dashed, what is expected yellow and dashed, what the
# board does green; a reading of the whole module is grey.
PLAIN, GREY = "blue", "#8e8e8e"
# By pattern of a series' name: colour, whether it is dashed, and the legends that may give such names.
LEGEND_COLOURS = {
    "/^(limit|cap)/": ("red", True, ("limit", "cap")),
    "/^(predicted|desired)/": ("yellow", True, ("predicted", "{{state}}")),
    "/^(observed|applied|drawn)/": ("green", False, ("observed", "{{state}}", "drawn")),
    "/^reserved/": (PLAIN, False, ("reserved",)),
    "/^(reading|total$)/": (GREY, False, ("reading", "{{rail}}")),
}
PHASE_COLOURS = {
    "Pending": GREY,
    "Queued": "light-yellow",
    "WaitingForNode": "light-orange",
    "WaitingForPower": "dark-orange",
    "Profiling": "yellow",
    "Running": "green",
    "Suspended": "purple",
    "Failed": "red",
}
# The solid line of a pair is wide, so that a dashed one on top of it does not hide it.
WIDE_LINE = 3
# Zeros alone would be drawn below an axis that ends at 100.
FEW = 4
# A board that is idle and one that trains, without a jump of a degree that fills the panel.
USUAL_CELSIUS = (20, 80)
# A slow mode has no step in most intervals; its line goes on between them.
LONGEST_STEP_MS = 60_000
_LABEL = re.compile(r"\{\{(\w+)\}\}")


class Kind:
    """How a panel draws."""

    LINES = "timeseries"
    LOGARITHMIC = "logarithmic lines"  # a slow mode takes a hundred times as long as the chosen one
    STACKED = "stacked areas"
    NUMBER = "stat"
    BARS = "bargauge"
    ROW = "row"


@dataclass(frozen=True)
class Panel:
    """One panel: queries with their legends, a unit of Grafana's, and what to look for; bars show this moment only.

    `empty` is what it says without data, `most` a value that is drawn as a red line; with `by_board` there is one
    panel for each board that is chosen at the top.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str
    description: str
    kind: str = Kind.LINES
    width: int = 12
    height: int = 8
    empty: str = ""
    most: float | None = None
    by_board: bool = False


@dataclass(frozen=True)
class Variable:
    """A choice at the top of a dashboard: the values of a label."""

    name: str
    query: str
    label: str
    several: bool = True  # or one value only: a board's rails, or a job's boards, are lines enough


@dataclass(frozen=True)
class Dashboard:
    """One dashboard."""

    name: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


def text(dashboard: Dashboard, others: Sequence[Dashboard]) -> str:
    """Return a dashboard's file, as Grafana reads it, with links to the others."""
    return json.dumps(document(dashboard, others).build(), cls=JSONEncoder, indent=1, ensure_ascii=False) + "\n"


def document(dashboard: Dashboard, others: Sequence[Dashboard]) -> builders.Dashboard:
    """Return a dashboard with its panels laid out from left to right, row by row."""
    grafana_dashboard = (
        builders.Dashboard(dashboard.title).uid(f"powertrain-{dashboard.name}").description(dashboard.description)
    )
    grafana_dashboard.tags([TAG]).editable().refresh("10s").time("now-1h", "now").version(1)
    grafana_dashboard.with_variable(builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    for variable in dashboard.variables:
        grafana_dashboard.with_variable(_variable(variable))
    for other in others:
        grafana_dashboard.link(_link(other))
    grafana_dashboard.tooltip(models.DashboardCursorSync.CROSSHAIR)
    for number, panel in enumerate(dashboard.panels, 1):
        if panel.kind == Kind.ROW:
            grafana_dashboard.with_row(builders.Row(panel.title).id(number))
        else:
            grafana_dashboard.with_panel(_panel(number, panel))
    return grafana_dashboard


def _panel(number: int, panel: Panel) -> builders.Panel:
    grafana_panel = _empty(panel).id(number).title(panel.title).description(panel.description).datasource(SOURCE)
    for name, (expression, legend) in zip(string.ascii_uppercase, panel.queries, strict=False):
        query = prometheus.Dataquery().ref_id(name).datasource(SOURCE).expr(expression).legend_format(legend)
        grafana_panel.with_target(query.instant() if panel.kind == Kind.BARS else query)
    # Grafana writes the text of an empty panel at every tick of a logarithmic axis that has no number.
    if panel.empty and panel.kind != Kind.LOGARITHMIC:
        grafana_panel.no_value(panel.empty)
    if panel.most is not None:
        _draw_most(grafana_panel, panel.most)
    if panel.by_board:
        grafana_panel.repeat(BOARD_VARIABLE).repeat_direction("h").max_per_row(3)
    return grafana_panel.unit(panel.unit).span(panel.width).height(panel.height)


def _empty(panel: Panel) -> builders.Panel:
    if panel.kind == Kind.NUMBER:
        grafana_panel = stat.Panel().graph_mode(BigValueGraphMode.NONE).color_mode(BigValueColorMode.VALUE)
        return grafana_panel.color_scheme(_fixed(PLAIN))
    if panel.kind == Kind.BARS:
        grafana_panel = bargauge.Panel().orientation(VizOrientation.HORIZONTAL).display_mode(BarGaugeDisplayMode.BASIC)
        grafana_panel.value_mode(BarGaugeValueMode.TEXT).name_placement(BarGaugeNamePlacement.LEFT)
        reduced = common.ReduceDataOptions().calcs(["lastNotNull"])
        # Without it a single bar has no name.
        grafana_panel.display_name(_LABEL.sub(r"${__field.labels.\1}", panel.queries[0][1]))
        return grafana_panel.reduce_options(reduced).min(0).color_scheme(_fixed(PLAIN))
    grafana_panel = timeseries.Panel().legend(common.VizLegendOptions().show_legend(True))
    _set_axis(grafana_panel, panel)
    for pattern, (colour, dashed, words) in LEGEND_COLOURS.items():
        legends = [legend for _, legend in panel.queries if legend.startswith(words)]
        looks = []
        # Lines of several boards keep a colour each; only limits are red everywhere.
        if colour == "red" or not any("{{node}}" in legend for legend in legends):
            looks = [_look("color", {"mode": "fixed", "fixedColor": colour})]
        if dashed:
            looks += [_look("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}), _look("custom.lineWidth", 2)]
        if colour == "red":  # a limit holds until it changes
            looks.append(_look("custom.lineInterpolation", "stepAfter"))
        if not dashed and (len(panel.queries) > 1 or legends == ["{{state}}"]):
            looks.append(_look("custom.lineWidth", WIDE_LINE if colour == "green" else 1))
        if legends and looks:
            grafana_panel.override_by_regexp(pattern, looks)
    if any(legend == "{{phase}}" for _, legend in panel.queries):
        for phase, colour in PHASE_COLOURS.items():
            grafana_panel.override_by_name(phase, [_look("color", {"mode": "fixed", "fixedColor": colour})])
    return grafana_panel


def _set_axis(grafana_panel: timeseries.Panel, panel: Panel) -> None:
    """Let an axis begin at zero where a difference would look larger than it is, and end where zeros look small."""
    if panel.kind == Kind.LOGARITHMIC:
        grafana_panel.scale_distribution(common.ScaleDistributionConfig().type(ScaleDistribution.LOG).log(10))
        grafana_panel.span_nulls(LONGEST_STEP_MS)
        return
    if panel.unit == "celsius":
        low, high = USUAL_CELSIUS
        grafana_panel.axis_soft_min(low).axis_soft_max(high)
        return
    grafana_panel.min(0)
    if panel.unit in ("none", "cps"):
        grafana_panel.axis_soft_max(FEW)
    if panel.kind == Kind.STACKED:
        grafana_panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A")).fill_opacity(40)
        grafana_panel.line_interpolation(LineInterpolation.STEP_AFTER)


def _look(name: str, value: object) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(id_val=name, value=value)


def _fixed(colour: str) -> builders.FieldColor:
    return builders.FieldColor().mode(models.FieldColorModeId.FIXED).fixed_color(colour)


def _draw_most(grafana_panel: builders.Panel, most: float) -> None:
    steps = [models.Threshold(value=None, color="green"), models.Threshold(value=most, color="red")]
    grafana_panel.thresholds(builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    grafana_panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.LINE))


def _variable(variable: Variable) -> builders.QueryVariable:
    query_variable = (
        builders.QueryVariable(variable.name).label(variable.label).datasource(SOURCE).query(variable.query)
    )
    query_variable.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(models.VariableSort.ALPHABETICAL_ASC)
    if not variable.several:
        return query_variable.include_all(False).multi(False)
    everything = models.VariableOption(text="All", value="$__all")
    return query_variable.include_all(True).all_value(".*").multi(True).current(everything)


def _link(other: Dashboard) -> builders.DashboardLink:
    link = builders.DashboardLink(other.title).type(models.DashboardLinkType.LINK).icon("dashboard")
    return link.url(f"/d/powertrain-{other.name}").include_vars(True).keep_time(True)
