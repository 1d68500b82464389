"""The Grafana dashboards as code: Fleet, Node and Job; `make manifests` writes them into the chart, a test compares."""

from __future__ import annotations

import dashboard_panels
from dashboard_panels import BOARD_VARIABLE, Dashboard, Kind, Panel, Variable

# A counter with labels is born with its first event; a zero for every board that answers makes "none" visible.
NONE = 'sum by (node) (0 * up{component="agent", node=~"$node"})'
# The samples of earlier jobs stay for a while; a board's power and front are those of the job that it serves.
ON_JOB = 'and on (node) powertrain_session_info{job=~"$job"}'
# Joules a second of every board, each minute, as long as it has a job; docs/how-to/energy.md explains it.
ENERGY_OF_JOBS = "rate(powertrain_energy_joules_total[2m]) * on (node) group_left (job) powertrain_session_info"
NODES = Variable("node", 'label_values(powertrain_power_watts{rail="total"}, node)', "Node")
NODE = Variable(NODES.name, NODES.query, NODES.label, several=False)
JOB = Variable("job", "label_values(powertrain_samples_total, job)", "Job", several=False)
BOARDS = Variable(BOARD_VARIABLE, 'label_values(powertrain_samples_total{job=~"$job"}, node)', "Board")
NO_JOB = "no job: the board has its own settings"
NO_BOARD = "the job has no board now"
NO_BUDGET = "there is no PowerBudget"
NO_JOBS = "there are no jobs"


def one(query: str, legend: str = "{{node}}") -> tuple[tuple[str, str], ...]:
    """Return a single query."""
    return ((query, legend),)


def heading(title: str) -> Panel:
    """Return the heading of a row."""
    return Panel(title, (), "none", "", Kind.ROW)


def clock(part: str, title: str) -> Panel:
    """Return the panel of a clock, as asked for and as set."""
    query = f'powertrain_{part}_frequency_hertz{{node=~"$node"}}'
    words = "What was asked for and what the board was seen to have."
    return Panel(title, one(query, "{{state}}"), "hertz", words, empty=NO_JOB)


def energy(title: str, query: str, legend: str, description: str, width: int = 12) -> Panel:
    """Return bars of watt-hours over the chosen time, the largest first."""
    ranked = one(f"sort_desc({query})", legend)
    return Panel(title, ranked, "watth", description, Kind.BARS, width, empty="no energy in this time")


FLEET = Dashboard(
    "fleet",
    "PowerTrain / Fleet",
    "All boards: watts against budgets, jobs, modes, energy.",
    (NODES,),
    (
        Panel(
            "Boards",
            one('count(up{component="agent"} == 1)', "boards"),
            "none",
            "Agents that answer.",
            Kind.NUMBER,
            6,
            4,
        ),
        Panel(
            "Power",
            one('sum(powertrain_power_watts{rail="total"})', "all"),
            "watt",
            "All boards together.",
            Kind.NUMBER,
            6,
            4,
        ),
        Panel(
            "Limits in force",
            one("sum(powertrain_power_limit_watts) or vector(0)", "all"),
            "watt",
            "Of the boards that have a job, together.",
            Kind.NUMBER,
            6,
            4,
        ),
        Panel(
            "Jobs that train",
            one('sum(powertrain_jobs{phase=~"Profiling|Running"}) or vector(0)', "jobs"),
            "none",
            "Profiling or running; a panel below has the others.",
            Kind.NUMBER,
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
        Panel(
            "Jobs by phase",
            one('powertrain_jobs{phase!="Succeeded"} > 0', "{{phase}}"),
            "none",
            "Queued jobs wait for their turn. Jobs that succeeded are not drawn.",
            Kind.STACKED,
            empty=NO_JOBS,
        ),
        Panel(
            "Samples a second",
            one('sum by (node) (rate(powertrain_samples_total{node=~"$node"}[$__rate_interval]))'),
            "none",
            "This is what a budget buys.",
            empty="no steps in this time",
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
            "Of each PowerBudget. Drawn stays below reserved, and reserved below the cap.",
            empty=NO_BUDGET,
        ),
        Panel(
            "Shares by board",
            one("powertrain_budget_share_watts", "{{node}} of {{budget}}"),
            "watt",
            "When a job ends, its watts go to the others.",
            Kind.STACKED,
            empty=NO_BUDGET,
        ),
        Panel(
            "Jobs that wait for power",
            one("powertrain_budget_waiting_jobs", "{{budget}}"),
            "none",
            "The cap of the moment leaves too few watts for their lowest modes.",
            empty=NO_BUDGET,
        ),
        Panel(
            "Shares not confirmed",
            one("powertrain_budget_unconfirmed_shares", "{{budget}}"),
            "none",
            "Boards on their way to another share; their old one stays reserved.",
            empty=NO_BUDGET,
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
                ('powertrain_power_watts{rail="total", node=~"$node"}', "reading"),
                ('powertrain_power_observed_watts{node=~"$node"}', "observed"),
                ('powertrain_power_predicted_watts{node=~"$node"}', "predicted"),
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
    (JOB, BOARDS),
    (
        Panel(
            "Samples",
            one('sum by (job) (powertrain_samples_total{job=~"$job"})', "{{job}}"),
            "locale",
            "Trained so far, since the agents started.",
            Kind.NUMBER,
            8,
            4,
        ),
        Panel(
            "Samples a second",
            one('sum by (job) (rate(powertrain_samples_total{job=~"$job"}[$__rate_interval]))', "{{job}}"),
            "none",
            "All replicas together.",
            Kind.NUMBER,
            8,
            4,
        ),
        Panel(
            "Boards",
            one('count by (job) (powertrain_samples_total{job=~"$job"})', "{{job}}"),
            "none",
            "Boards that have trained it.",
            Kind.NUMBER,
            8,
            4,
        ),
        Panel(
            "Power of $board",
            tuple(
                (f'powertrain_power_{what}_watts{{node=~"$board"}} {ON_JOB}', what)
                for what in ("limit", "observed", "predicted")
            ),
            "watt",
            "Observed stays below the limit; the gap is the price of certainty.",
            width=24,
            empty=NO_BOARD,
            by_board=True,
        ),
        Panel(
            "Step on $board",
            tuple(
                (f'powertrain_step_{what}_seconds{{node=~"$board"}} {ON_JOB}', what)
                for what in ("observed", "predicted")
            ),
            "s",
            "Far apart for long: the profile does not fit the training any more.",
            Kind.LOGARITHMIC,
            width=24,
            empty=NO_BOARD,
            by_board=True,
        ),
        Panel(
            "Front of $board",
            one(f'sort_desc(powertrain_front_step_seconds{{node=~"$board"}} {ON_JOB})', "{{watts}} W"),
            "s",
            "Time of a step at the fastest mode within so many watts: what a larger budget would buy.",
            Kind.BARS,
            width=24,
            empty="no board, or nothing is measured yet",
            by_board=True,
        ),
        Panel(
            "Slow steps",
            one(
                "histogram_quantile(0.95, sum by (le, node) "
                '(rate(powertrain_step_duration_seconds_bucket{job=~"$job"}[$__rate_interval])))'
            ),
            "s",
            "95th percentile, from the training itself. Far above the time of a step: look at the input pipeline.",
            Kind.LOGARITHMIC,
            empty="no steps in this time",
        ),
        energy(
            "Energy by board",
            f'sum by (node) (sum_over_time(({ENERGY_OF_JOBS}{{job=~"$job"}})[$__range:1m])) / 60',
            "{{node}}",
            "What each board took for the job in the chosen time, by the minute.",
        ),
        Panel(
            "Profiling",
            one(f'powertrain_profiling_modes{{state="measured"}} {ON_JOB}'),
            "none",
            "Modes measured. They go on after the choice: checks in flight, or another limit.",
            empty=NO_BOARD,
        ),
        Panel(
            "Guard",
            one(
                f"(sum by (node) (increase(powertrain_guard_actions_total[1h])) "
                f'or on (node) sum by (node) (0 * up{{component="agent"}})) {ON_JOB}'
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
    return dashboard_panels.text(dashboard, [other for other in DASHBOARDS if other is not dashboard])
