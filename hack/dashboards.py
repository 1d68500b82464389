"""The Grafana dashboards as code: Fleet, Node and Job; `make manifests` writes them into the chart, a test compares."""

from __future__ import annotations

import json
import string
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
    VizOrientation,
)

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG = "powertrain"
# A counter with labels is born with its first event; a zero for every board that answers makes "none" visible.
NONE = '0 * up{component="agent", node=~"$node"}'
# The samples of earlier jobs stay for a while; a board's power and front are those of the job that it serves.
ON_JOB = 'and on (node) powertrain_session_info{job=~"$job"}'


# Joules a second of every board, each minute, as long as it has a job; docs/how-to/energy.md explains it.
ENERGY_OF_JOBS = "rate(powertrain_energy_joules_total[2m]) * on (node) group_left (job) powertrain_session_info"
# One colour for one meaning, on every panel: a limit is red and dashed, what is expected yellow and dashed.
PLAIN = "blue"
# By pattern of a series' name: colour, whether it is dashed, and the legends that may give such names.
LEGEND_COLOURS = {
    "/^limit/": ("red", True, ("limit",)),
    "/^(predicted|desired)/": ("yellow", True, ("predicted", "{{state}}")),
    "/^(observed|applied|total$)/": ("green", False, ("observed", "{{state}}", "{{rail}}")),
    "/^reading/": ("#8e8e8e", False, ("reading",)),
}


@dataclass(frozen=True)
class Panel:
    """One panel: queries with their legends, a unit of Grafana's, and what to look for; bars show this moment only.

    `empty` is what it says without data, `most` a value that is drawn as a red line.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str
    description: str
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    empty: str = ""
    most: float | None = None


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


NODES = Variable("node", 'label_values(powertrain_power_watts{rail="total"}, node)', "Node")
NODE = Variable(NODES.name, NODES.query, NODES.label, several=False)
JOB = Variable("job", "label_values(powertrain_samples_total, job)", "Job", several=False)
NO_JOB = "no job: the board has its own settings"
NO_BOARD = "the job has no board now"


def one(query: str, legend: str = "{{node}}") -> tuple[tuple[str, str], ...]:
    """Return a single query."""
    return ((query, legend),)


def heading(title: str) -> Panel:
    """Return the heading of a row."""
    return Panel(title, (), "none", "", "row")


def clock(part: str, title: str) -> Panel:
    """Return the panel of a clock, as asked for and as set."""
    query = f'powertrain_{part}_frequency_hertz{{node=~"$node"}}'
    words = "What was asked for and what the board was seen to have."
    return Panel(title, one(query, "{{state}}"), "hertz", words, empty=NO_JOB)


def energy(title: str, query: str, legend: str, description: str, width: int = 12) -> Panel:
    """Return bars of watt-hours over the chosen time, the largest first."""
    ranked = one(f"sort_desc({query})", legend)
    return Panel(title, ranked, "watth", description, "bargauge", width, empty="no energy in this time")


FLEET = Dashboard(
    "fleet",
    "PowerTrain / Fleet",
    "All boards: watts against budgets, jobs, modes, energy.",
    (NODES,),
    (
        Panel(
            "Boards", one('count(up{component="agent"} == 1)', "boards"), "none", "Agents that answer.", "stat", 6, 4
        ),
        Panel(
            "Power",
            one('sum(powertrain_power_watts{rail="total"})', "all"),
            "watt",
            "All boards together.",
            "stat",
            6,
            4,
        ),
        Panel(
            "Limits in force",
            one("sum(powertrain_power_limit_watts) or vector(0)", "all"),
            "watt",
            "Of the boards that have a job, together.",
            "stat",
            6,
            4,
        ),
        Panel(
            "Jobs that train",
            one('sum(powertrain_jobs{phase=~"Profiling|Running"}) or vector(0)', "jobs"),
            "none",
            "Profiling or running; a panel below has the others.",
            "stat",
            6,
            4,
        ),
        Panel(
            "Power and budget by board",
            (
                ('powertrain_power_watts{rail="total", node=~"$node"}', "{{node}}"),
                ('powertrain_power_limit_watts{node=~"$node"}', "limit {{node}}"),
            ),
            "watt",
            "A board without a limit has no job, or a job without one.",
        ),
        Panel(
            "Use of the budget",
            one('powertrain:power_budget_use:ratio{node=~"$node"}'),
            "percentunit",
            "Mean of a minute. Near 100 % the budget is used well; above it an alert follows.",
            empty="no board has a limit now",
            most=1.0,
        ),
        Panel("Jobs by phase", one("powertrain_jobs", "{{phase}}"), "none", "Queued jobs wait for a board."),
        Panel(
            "Samples a second",
            one('sum by (node) (rate(powertrain_samples_total{node=~"$node"}[$__rate_interval]))'),
            "none",
            "This is what a budget buys.",
        ),
        Panel(
            "GPU clock set",
            one('powertrain_gpu_frequency_hertz{state="applied", node=~"$node"}'),
            "hertz",
            "The part of a mode that matters most.",
            empty="no board has a job now",
        ),
        Panel(
            "Readings and windows above a limit",
            one(f'sum by (node) (increase(powertrain_violations_total{{node=~"$node"}}[1h])) or on (node) {NONE}'),
            "none",
            "Within the last hour.",
        ),
        heading("One budget for a site"),
        Panel(
            "Draw against the cap",
            (
                ("powertrain_budget_drawn_watts", "drawn {{budget}}"),
                ("powertrain_budget_allocated_watts", "reserved {{budget}}"),
                ("powertrain_budget_cap_watts", "cap {{budget}}"),
            ),
            "watt",
            "Of each PowerBudget. Drawn stays below reserved, and reserved below the cap; empty without a PowerBudget.",
        ),
        Panel(
            "Shares by board",
            one("powertrain_budget_share_watts", "{{node}} of {{budget}}"),
            "watt",
            "When a job ends, its watts go to the others.",
        ),
        Panel(
            "Jobs that wait for power",
            one("powertrain_budget_waiting_jobs", "{{budget}}"),
            "none",
            "The cap of the moment leaves too few watts for their lowest modes.",
        ),
        Panel(
            "Shares not confirmed",
            one("powertrain_budget_unconfirmed_shares", "{{budget}}"),
            "none",
            "Boards on their way to another share; their old one stays reserved.",
        ),
        heading("Operator"),
        Panel(
            "Operator: oldest key",
            one("powertrain_queue_oldest_seconds", "waiting"),
            "s",
            "How far the operator is behind. More than seconds is too much.",
        ),
        Panel(
            "Operator: time of a reconcile",
            one(
                "histogram_quantile(0.95, sum by (le, kind) (rate(powertrain_reconcile_duration_seconds_bucket[5m])))",
                "{{kind}}",
            ),
            "s",
            "95th percentile with its writes.",
        ),
        heading("Energy"),
        energy(
            "Energy by node",
            'sum by (node) (increase(powertrain_energy_joules_total{node=~"$node"}[$__range])) / 3600',
            "{{node}}",
            "All that the boards took in the chosen time, also without a job.",
            width=8,
        ),
        energy(
            "Energy by job",
            f"sum by (job) (sum_over_time(({ENERGY_OF_JOBS})[$__range:1m])) / 60",
            "{{job}}",
            "What the boards took while they had the job, by the minute.",
            width=8,
        ),
        energy(
            "Energy by namespace",
            f"sum by (namespace) (label_replace(sum by (job) (sum_over_time(({ENERGY_OF_JOBS})[$__range:1m])) / 60, "
            '"namespace", "$1", "job", "(.*)/.*"))',
            "{{namespace}}",
            "The jobs of a namespace together.",
            width=8,
        ),
    ),
)

BOARD = Dashboard(
    "node",
    "PowerTrain / Node",
    "One board: power by rail, clocks, heat.",
    (NODE,),
    (
        Panel(
            "Power by rail",
            one('powertrain_power_watts{node=~"$node"}', "{{rail}}"),
            "watt",
            "The total is the module, without its carrier board.",
        ),
        Panel(
            "Power: limit, predicted, observed",
            (
                ('powertrain_power_limit_watts{node=~"$node"}', "limit"),
                ('powertrain_power_predicted_watts{node=~"$node"}', "predicted"),
                ('powertrain_power_observed_watts{node=~"$node"}', "observed"),
                ('powertrain_power_watts{rail="total", node=~"$node"}', "reading"),
            ),
            "watt",
            "What the mode was expected to take, and takes. Without a job there is only the reading.",
        ),
        clock("gpu", "GPU clock"),
        clock("cpu", "CPU clock"),
        clock("memory", "Memory clock"),
        Panel(
            "CPU cores",
            one('powertrain_cpu_cores{node=~"$node"}', "{{state}}"),
            "none",
            "They stay as they are unless a PowerPolicy allows hotplug.",
            empty=NO_JOB,
        ),
        Panel(
            "Temperature", one('powertrain_temperature_celsius{node=~"$node"}'), "celsius", "The hottest thermal zone."
        ),
        Panel(
            "Throttling",
            one(
                f'sum by (node) (increase(powertrain_throttle_events_total{{node=~"$node"}}[1h])) or on (node) {NONE}',
            ),
            "none",
            "Times within the last hour that the board slowed itself down. Such windows do not count as measured.",
        ),
        Panel(
            "Energy of an hour",
            one('increase(powertrain_energy_joules_total{node=~"$node"}[1h]) / 3600'),
            "watth",
            "What the module took in the hour before each moment.",
        ),
        Panel(
            "Readings that failed",
            one('rate(powertrain_power_reading_failures_total{node=~"$node"}[$__rate_interval])'),
            "cps",
            "Without readings a job is held at the mode of least power.",
        ),
        Panel(
            "Measuring windows",
            one('sum by (verdict) (increase(powertrain_windows_total{node=~"$node"}[1h]))', "{{verdict}}"),
            "none",
            "Windows of the last hour by verdict; thrown away ones say why.",
            empty="nothing was measured in the last hour",
        ),
        Panel("API server", one('powertrain_api_up{node=~"$node"}'), "bool", "Whether it answers this board's agent."),
    ),
)

TRAINING = Dashboard(
    "job",
    "PowerTrain / Job",
    "One training: progress, predicted and observed, its front, energy, guard.",
    (JOB,),
    (
        Panel(
            "Samples",
            one('sum by (job) (powertrain_samples_total{job=~"$job"})', "{{job}}"),
            "none",
            "Trained so far, since the agents started.",
            "stat",
            8,
            4,
        ),
        Panel(
            "Samples a second",
            one('sum by (job) (rate(powertrain_samples_total{job=~"$job"}[$__rate_interval]))', "{{job}}"),
            "none",
            "All replicas together.",
            "stat",
            8,
            4,
        ),
        Panel(
            "Boards",
            one('count by (job) (powertrain_samples_total{job=~"$job"})', "{{job}}"),
            "none",
            "Boards that have trained it.",
            "stat",
            8,
            4,
        ),
        Panel(
            "Time of a step",
            tuple(
                (
                    f"histogram_quantile({quantile}, sum by (le, node) "
                    '(rate(powertrain_step_duration_seconds_bucket{job=~"$job"}[$__rate_interval])))',
                    f"{label} {{{{node}}}}",
                )
                for quantile, label in ((0.5, "median"), (0.95, "95 %"))
            ),
            "s",
            "From the training itself.",
            empty="no steps in this time",
        ),
        Panel(
            "Step: predicted and observed",
            (
                (f"powertrain_step_predicted_seconds {ON_JOB}", "predicted {{node}}"),
                (f"powertrain_step_observed_seconds {ON_JOB}", "observed {{node}}"),
            ),
            "s",
            "Far apart for long: the profile does not fit the training any more.",
            empty=NO_BOARD,
        ),
        Panel(
            "Power: limit, predicted, observed",
            (
                (f"powertrain_power_limit_watts {ON_JOB}", "limit {{node}}"),
                (f"powertrain_power_predicted_watts {ON_JOB}", "predicted {{node}}"),
                (f"powertrain_power_observed_watts {ON_JOB}", "observed {{node}}"),
            ),
            "watt",
            "Observed stays below the limit; the gap is the price of certainty.",
            empty=NO_BOARD,
        ),
        energy(
            "Energy by board",
            f'sum by (node) (sum_over_time(({ENERGY_OF_JOBS}{{job=~"$job"}})[$__range:1m])) / 60',
            "{{node}}",
            "What each board took for the job in the chosen time, by the minute.",
        ),
        Panel(
            "Front",
            one(f"sort_desc(powertrain_front_step_seconds {ON_JOB})", "{{watts}} W {{node}}"),
            "s",
            "Time of a step at the fastest mode within so many watts: what a larger budget would buy.",
            "bargauge",
            empty="the job has no board now, or nothing is measured yet",
        ),
        Panel(
            "Profiling",
            one(f"powertrain_profiling_modes {ON_JOB}", "{{state}} {{node}}"),
            "none",
            "Modes measured, of those planned.",
            empty=NO_BOARD,
        ),
        Panel(
            "Guard",
            one(
                f"(sum by (node) (increase(powertrain_guard_actions_total[1h])) "
                f'or on (node) 0 * up{{component="agent"}}) {ON_JOB}'
            ),
            "none",
            "Steps down because the mean was above the limit, within the last hour.",
            empty=NO_BOARD,
        ),
    ),
)

DASHBOARDS = (FLEET, BOARD, TRAINING)


def text(dashboard: Dashboard) -> str:
    """Return a dashboard's file, as Grafana reads it."""
    return json.dumps(document(dashboard).build(), cls=JSONEncoder, indent=1, ensure_ascii=False) + "\n"


def document(dashboard: Dashboard) -> builders.Dashboard:
    """Return a dashboard with its panels laid out from left to right, row by row."""
    built = builders.Dashboard(dashboard.title).uid(f"powertrain-{dashboard.name}").description(dashboard.description)
    built.tags([TAG]).editable().refresh("10s").time("now-1h", "now").version(1)
    built.with_variable(builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    for variable in dashboard.variables:
        built.with_variable(_variable(variable))
    for other in DASHBOARDS:
        if other is not dashboard:
            built.link(_link(other))
    built.tooltip(models.DashboardCursorSync.CROSSHAIR)
    for number, panel in enumerate(dashboard.panels, 1):
        if panel.kind == "row":
            built.with_row(builders.Row(panel.title).id(number))
        else:
            built.with_panel(_panel(number, panel))
    return built


def _panel(number: int, panel: Panel) -> builders.Panel:
    built = _empty(panel).id(number).title(panel.title).description(panel.description).datasource(SOURCE)
    for name, (expression, legend) in zip(string.ascii_uppercase, panel.queries, strict=False):
        query = prometheus.Dataquery().ref_id(name).datasource(SOURCE).expr(expression).legend_format(legend)
        built.with_target(query.instant() if panel.kind == "bargauge" else query)
    if panel.empty:
        built.no_value(panel.empty)
    if panel.most is not None:
        _draw_most(built, panel.most)
    return built.unit(panel.unit).span(panel.width).height(panel.height)


def _empty(panel: Panel) -> builders.Panel:
    if panel.kind == "stat":
        built = stat.Panel().graph_mode(BigValueGraphMode.NONE).color_mode(BigValueColorMode.VALUE)
        return built.color_scheme(_fixed(PLAIN))
    if panel.kind == "bargauge":
        built = bargauge.Panel().orientation(VizOrientation.HORIZONTAL).display_mode(BarGaugeDisplayMode.BASIC)
        built.value_mode(BarGaugeValueMode.TEXT).name_placement(BarGaugeNamePlacement.LEFT)
        reduced = common.ReduceDataOptions().calcs(["lastNotNull"])
        return built.reduce_options(reduced).min(0).color_scheme(_fixed(PLAIN))
    built = timeseries.Panel().legend(common.VizLegendOptions().show_legend(True))
    for pattern, (colour, dashed, words) in LEGEND_COLOURS.items():
        legends = [legend for _, legend in panel.queries if legend.startswith(words)]
        looks = []
        # Lines of several boards keep a colour each; only limits are red everywhere.
        if colour == "red" or not any("{{node}}" in legend for legend in legends):
            looks = [models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour})]
        if dashed:
            style = {"fill": "dash", "dash": [8, 6]}
            looks.append(models.DynamicConfigValue(id_val="custom.lineStyle", value=style))
        if legends and looks:
            built.override_by_regexp(pattern, looks)
    return built


def _fixed(colour: str) -> builders.FieldColor:
    return builders.FieldColor().mode(models.FieldColorModeId.FIXED).fixed_color(colour)


def _draw_most(built: builders.Panel, most: float) -> None:
    steps = [models.Threshold(value=None, color="green"), models.Threshold(value=most, color="red")]
    built.thresholds(builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    built.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.LINE))


def _variable(variable: Variable) -> builders.QueryVariable:
    built = builders.QueryVariable(variable.name).label(variable.label).datasource(SOURCE).query(variable.query)
    built.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(models.VariableSort.ALPHABETICAL_ASC)
    if not variable.several:
        return built.include_all(False).multi(False)
    everything = models.VariableOption(text="All", value="$__all")
    return built.include_all(True).all_value(".*").multi(True).current(everything)


def _link(other: Dashboard) -> builders.DashboardLink:
    built = builders.DashboardLink(other.title).type(models.DashboardLinkType.LINK).icon("dashboard")
    return built.url(f"/d/powertrain-{other.name}").include_vars(True).keep_time(True)
