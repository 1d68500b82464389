"""The page about the agent's state machine: prose, and what follows from the types of its handlers."""

from __future__ import annotations

from collections.abc import Iterable

from powertrain_agent.governing import commands, events
from powertrain_agent.governing.machine import TABLE
from powertrain_agent.governing.states import (
    TRIALS,
    Blind,
    Ended,
    Holding,
    New,
    Refused,
    Running,
    Starting,
    WaitingForSteps,
)
from powertrain_agent.governing.transitions import conclusions, targets
from powertrain_agent.planning.messages import Planned
from powertrain_agent.steps import StepsSeen
from powertrain_agent.telemetry import Reading

COLUMNS = (Reading, StepsSeen, Planned, events.Tick, events.Amended, events.PolicyChanged, events.Restored)
ENDS = (Ended, Refused)
TIMED = (Starting, WaitingForSteps, Running, Blind)  # what time alone may end
INTRO = """# How the agent thinks

On every Jetson one agent decides which power mode the training runs in. It works as a state machine: an **event**
comes, the machine looks at its **state**, at what it knows of the session and at the **facts** of the moment. It
answers with the next state and a list of **commands**. The code is in `node_agent/powertrain_agent/governing`.

```text
events ──► board_sessions.py ──► executor.py ──► machine.py: decide(session, state, event, facts) ──► state, commands
           which session          gives facts,    pure: no clock, no file, no board                        │
           is served?             does commands ◄──────────────────────────────────────────────────────────┘
```

Read `states.py` first, then `events.py` and `commands.py`, then the table in `machine.py`. What a state does has a file
of its own.

## A session in seven steps

1. **Start.** The agent computes the mode of least power by the shipped reference (`planning/safe_start.py`). It sets
   that mode, reads it back, and only then opens the gate for the training (`starting.py`).
2. **Wait** for the first step. A training that counts no steps is climbed by power alone (`climbing_without_steps.py`).
3. **Plan.** A child process at low priority names the next mode to measure (`planning/`). The mode stays meanwhile.
4. **Try.** A visit (`visit.py`) sets the mode and measures it. How it keeps the limit depends on what is limited:
   a mean over a window by a ledger, single readings by themselves (see below).
5. **Choose.** The best mode that was measured to keep the limits runs. One that is close to a mean limit is held first,
   and one that was only predicted is measured first (`choosing.py`).
6. **Run.** The guard watches every reading (`budget_guard.py`, `lowering.py`). Now and then the agent checks a mode
   that is predicted to be better, and after a drift it measures a few modes again (`running.py`, `revisiting.py`).
7. **End.** Once nobody needs the session, the original settings come back (`control/hold_or_restore.py`, `ending.py`).

Whenever something that held the session up is over (a lost sensor, a hold, a restart), one function says what comes
next: `onward.go_on`.

## How a visit keeps the limit

**A mean over a window** (`powerStatistic: Mean`, `caution: Normal`): a mode above the limit does no harm for a moment
if the seconds around it are low. The last readings are a ledger (`mean_watch.py`, `core/powertrain/exploring`). The
board rests in its mode of least power until the windows have room for what the mode may draw at most. Then the mode
is set at once. From each reading on, `mean_visit.py` asks where every window would end if the level stayed for the
time a decision takes and then fell back to the rest, as slowly as the power was seen to fall. It leaves before one
would exceed the limit, or once the power can't be low enough to be chosen. A visit that was left early gives the
power alone, with an error of its own; `timing_window.py` times the steps of the others. A choice is held until its mean
keeps a distance that follows from the scatter of its readings and from how many windows the training still has. After
a visit the chosen mode waits in the rest mode until the windows have room for it (`Running.rests_until_s`).

A load that pulses, or a sensor that lags more than the rules assume, is detected from the same readings
(`core/powertrain/exploring/swing.py`): the condition `LoadSteady` reports it, the limit is lowered by the swing, and
only modes that are expected to keep it are tried.

**Single readings** (`Peak`, `hardLimitWatts`, `hardLimitAmps`), and everything with `caution: High`: the mode is
approached clock by clock (`approach.py`), the power settles, a window measures it (`measurement_window.py`), and the
first reading above the limit ends the visit.

## Waiting for the board

Setting a mode takes time and may fail, and what follows depends on the result. A decision therefore says
`applied = await turn.apply(mode)`. There is no event loop behind that: `decide` runs the decision until it waits and
returns the commands with `Waiting`. It continues when the executor brings the result as an event (`ModeApplied` or
`Inspected`). Nothing else is decided meanwhile. Commands without a result are only collected.

## After a restart

`session_file.py` writes the record (`record.py`) after every decision. A restarted agent reads it, begins in `New` and
takes the event `Resumed`; from there the same functions decide as ever.

"""
TABLE_INTRO = """## The table

One row for each state, one column for each event; a cell names the states that may follow, `·` means that the state
stays. mypy checks these against the code, and a property test walks through thousands of histories. `Opened` and
`Resumed` come once, in `New`. A trial has a visit; when it has ended, the last column follows at once, whatever event
ended it. `TrainingSaid`, `ModeChecked` and `ReportDue` change no state.

"""
DIAGRAM_INTRO = """
## The diagram

The usual ways. Three more lead from everywhere: a lost sensor to `Blind`, a hold to `Holding`, `Restored` to `Ended`.

"""


def machine_page() -> str:
    """Return the page."""
    parts = (INTRO, _states(), TABLE_INTRO, _table(), DIAGRAM_INTRO, _diagram(), "\n", _commands())
    return "".join(parts)


def _states() -> str:
    rows = [f"| `{state.__name__}` | {_first(state.__doc__)} |" for state in TABLE]
    return "\n".join(["## The states", "", "| state | meaning |", "|---|---|", *rows, "", ""])


def _commands() -> str:
    names = (getattr(commands, name) for name in dir(commands))
    kinds = [kind for kind in names if isinstance(kind, type) and kind.__module__ == commands.__name__]
    rows = [f"| `{kind.__name__}` | {_first(kind.__doc__)} |" for kind in kinds]
    return "\n".join(["## The commands", "", "| command | meaning |", "|---|---|", *rows, ""])


def _table() -> str:
    header = ["state", *(event.__name__ for event in COLUMNS), "its visit ended"]
    lines = [header, ["---"] * len(header)]
    for state in TABLE:
        if state in ENDS:
            continue
        after = conclusions(state) if state in TRIALS else ()
        firsts = targets(state, events.Opened) + targets(state, events.Resumed)
        cells = [_cell(state, targets(state, event)) for event in COLUMNS]
        cells[0] = _cell(state, firsts) if state is New else cells[0]
        lines.append([f"`{state.__name__}`", *cells, ", ".join(f"`{each.__name__}`" for each in after)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(state: type, after: Iterable[type]) -> str:
    others = dict.fromkeys(each.__name__ for each in after if each is not state)
    return ", ".join(f"`{name}`" for name in others) or "·"


def _diagram() -> str:
    edges: dict[tuple[str, str], list[str]] = {}

    def add(before: type, after: Iterable[type], label: str) -> None:
        for each in after:
            if each is not before and each not in (Blind, Holding):
                edges.setdefault((before.__name__, each.__name__), []).append(label)

    for state in TABLE:
        for event in (events.Opened, Reading, StepsSeen, Planned):
            add(state, targets(state, event), event.__name__)
        if state in TIMED:
            add(state, targets(state, events.Tick), events.Tick.__name__)
        if state in TRIALS:
            add(state, conclusions(state), "visit ended")
    lines = [f"    {before} --> {after}: {', '.join(labels)}" for (before, after), labels in edges.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> New", *lines, "    Refused --> [*]", "```", ""])


def _first(doc: str | None) -> str:
    return " ".join((doc or "").split("\n\n")[0].split())
