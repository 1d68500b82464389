"""The reference page of the command line: the help of each verb, and real outputs on a generated table."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from powertrain.sample_csv import write_csv
from powertrain_cli import main, walkthrough

INTRO = """\
# Command line

`powertrain`, also installed as `kubectl-powertrain`. Results go to stdout; progress, warnings and errors to stderr.

| Exit code | Meaning |
|---|---|
| 0 | done |
| 1 | no solution: nothing keeps the limits, nothing is measured yet, or the board can't be used |
| 2 | bad input: the message names the value and what is legal |
| 3 | environment: a file can't be written; a library, a board, a cluster or a permission is missing |

Every verb takes `--json`: one document on stdout and nothing else there. Keys are only ever added; `null` means that
there is no such value. `powertrain --install-completion` sets up completion for bash, zsh, fish and PowerShell.

`generated.csv` below is made by a formula (`powertrain_cli/walkthrough.py`), nobody measured it; the outputs are real.
"""

SCHEMAS = """\
## JSON

`devices --json`: `devices[]` with `name`, `title`, `soc`, `modules[]`, `cores`, `cpu_steps`, `gpu_steps`, `emc_steps`,
`modes`, `total_power`, `certain`. `devices show NAME --json`: the catalogue's record of one board.

`modes NAME --json`: `device`, `count`, `certain`, the four axes `cores[]`, `cpu_khz[]`, `gpu_hz[]`, `emc_hz[]`, and
`modes[]` as text; with `--count` only the first three.

A measured mode is `mode` (exact form), `human`, `step_s`, `power_w`, `power_peak_w`, `step_j`; in `choose` also
`epoch_s` and `epoch_j`, which need `--samples-per-epoch`.

`pareto --json`: `file`, `device`, `power_budget_w`, `fronts[]` (one for each batch size: `batch_size`, `modes`,
`front[]` of measured modes, fastest first, `best` within the budget, `presets[]` with `name`, `mode`, `exact`,
`measured`), `plot`, `warnings[]`.

`choose --json`: `file`, `batch_size`, `objective`, `limits` and `excluded` (by their names in a TrainingJob), `noise`,
`risk`, `modes`, `feasible`, `best`, `break_probability`, `runner_up`, `closest` (`measured`, `limit`, `value`,
`at_most`, `break_probability`; only where nothing is feasible), `reason`, `warnings[]`.

`list --json`: `jobs[]` with `namespace`, `name`, `phase`, `objective`, `nodes[]`, `power_w`, `limit_w`, `percent`,
`remaining`, `energy_j`, `age_s`, `message`. `status JOB --json`: the same of one job, and `attempt`, `eta`, `epoch`,
`samples`, `conditions[]`, `boards[]` (`node`, `device`, `phase`, `mode`, `limit_w`, `power_w`, `predicted`,
`observed`, `runner_up`, `reason`, `message`, `profile`, `modes_tried`, `steps`, `energy_j`, `violations`, `gained`,
`reference`, `tried[]`). A ± (`_pm_`) is two standard deviations.

`explain JOB --json`: `boards[]` as above with `chosen`, `second`, `front[]`, `excluded_above_limit`,
`excluded_unsafe[]`; `ranking[]` (`node`, `device`, `excluded`, `held_by`, `profile`, `expected_s`), best first;
`hidden[]`, the resources that could not be listed. `why-pending JOB --json`: `phase`, `pending`, `message`, `before[]`,
`nodes[]` as in `ranking[]`.

`front JOB --json`: `fronts[]` (`node`, `device`, `limit_w`, `mode`, `predicted[]`, `measured[]`), `plot`.
`nodes --json`: `nodes[]` with `node`, `device`, `modes`, `usable`, `problem`, `job`, `phase`, `power_w`, `limit_w`,
`policy_w`, `mode`, `annotations`. `profiles --json`: `profiles[]` with `name`, `workload`, `batch_size`, `device`,
`strategy`, `modes`, `front`, `uses`, `age_s`. `submit --json`: `namespace`, `name`, `dry_run`. `restore --json`:
`node`, `restored` (`null`: no answer), `message`.
"""

EXAMPLES = {
    "devices": ["devices", "devices show orin-nano"],
    "modes": ["modes orin-agx", "modes orin-agx --count", "modes orin-agx --profiled --count"],
    "pareto": [f"pareto {walkthrough.FILE} --power 30 --device orin-agx --terminal"],
    "choose": [
        f"choose {walkthrough.FILE} --power 30 --samples-per-epoch 50000",
        f"choose {walkthrough.FILE} --power 30 --noise 0.01 --hard-limit 32",
        f"choose {walkthrough.FILE} --objective MinPower --epoch-seconds 600 --samples-per-epoch 50000",
        f"choose {walkthrough.FILE} --power 9",
        f"choose {walkthrough.FILE} --power 30 --json",
        f"choose {walkthrough.FILE}",
        "choose missing.csv --power 30",
    ],
    "list": ["list --kubeconfig missing"],
    "submit": ["submit missing.yaml"],
    "doctor": ["doctor --read-only --host-root empty"],
}


def cli_page() -> str:
    """Return the page of the command line."""
    with _folder():
        sections = [_section(verb.name) for verb in main.VERBS]
    return "\n".join([INTRO, *sections, SCHEMAS])


def _section(verb: str) -> str:
    helps = [f"{verb} --help", *(f"{verb} {name} --help" for name in _subverbs(verb))]
    blocks = [_block(command) for command in (*helps, *EXAMPLES.get(verb, []))]
    return f"## powertrain {verb}\n\n" + "\n".join(blocks)


def _subverbs(verb: str) -> list[str]:
    command = next(each for each in main.VERBS if each.name == verb).load()
    return list(getattr(command, "commands", {}))


def _block(command: str) -> str:
    output, code = run(command)
    ended = f"(exit code {code})\n" if code else ""
    return f"```text\n$ powertrain {command}\n{output}{ended}```\n"


def run(command: str) -> tuple[str, int]:
    """Return what a command prints (stdout, then stderr) at a width of 100, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    environment = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", ["powertrain", *shlex.split(command)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main.run()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    lines = (out.getvalue() + err.getvalue()).splitlines()
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")
    return f"{text}\n", code


@contextlib.contextmanager
def _folder() -> Iterator[None]:
    """Work in a folder that holds the generated table and an empty board."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        with Path(walkthrough.FILE).open("w", encoding="utf-8") as stream:
            write_csv(walkthrough.generated(), stream)
        Path("empty").mkdir()
        yield
