"""Turns the report of a board that the catalogue lacks (`powertrain doctor --report`) into a file of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from powertrain.devices import SUM_OF_RAILS

FORMAT = 1
_SOURCE = "read from a board by powertrain doctor"
_NO_MEMORY_HZ = (1_000_000_000,)
_DEFAULT_CAP = "kernel/nvpmodel_clk_cap/emc"
_CAPS = {"cpu_khz": r"CPU", "gpu_hz": r"GPU$", "emc_hz": r"EMC$"}


class ReportError(ValueError):
    """A report that no board can be drafted from; the message says what it lacks."""


def draft(report: Mapping[str, Any], name: str) -> str:
    """Return the text of a catalogue file; it says of each table that it was read on one board."""
    if report.get("format") != FORMAT:
        raise ReportError(f"format {report.get('format')!r} of the report is not {FORMAT}: write it with this release")
    missing = [part for part in ("identity", "cpu", "gpu", "chips") if not report.get(part)]
    if missing or not report["cpu"].get("policies") or not report["gpu"].get("hz"):
        raise ReportError(f"the report lacks {', '.join(missing) or 'frequency tables'}: was it made on a Jetson?")
    cpu, identity = report["cpu"], report["identity"]
    clusters = [policy["cpus"] for policy in cpu["policies"]]
    lines = [
        f"name = {_text(name)}",
        f"title = {_text(identity['model'] or name)}",
        f"soc = {_text(identity['soc'])}",
        f"modules = {_list([identity['module']] if identity['module'] else [])}",
        f"l4t = {_text(identity['release'].partition(' ')[0] or 'unknown')}",
        f"cores = {len(cpu['present'])}",
        f"core_order = {_list(cpu['present'])}",
        f"clusters = [{', '.join(map(_list, clusters))}]",
        'notes = """\nA draft from one board. Inferred: the order of the cores, and which rail is the total."""',
        *([] if report.get("presets") else ["presets = []"]),
        *_tables(report),
        *_sensors(report),
        *_tree(report),
        *_presets(report),
    ]
    return "\n".join(lines) + "\n"


def _tables(report: Mapping[str, Any]) -> Iterable[str]:
    emc = report["emc"].get("hz") or list(_NO_MEMORY_HZ)
    has_rate = bool(report["emc"].get("hz"))
    tables = (
        ("cpu_khz", report["cpu"]["policies"][0]["khz"], True),
        ("gpu_hz", report["gpu"]["hz"], True),
        ("emc_hz", emc, has_rate),
    )
    for knob, values, certain in tables:
        source = _SOURCE if certain else "no list could be read; the value stands for an unknown clock"
        yield f"\n[tables.{knob}]\nvalues = {_list(values)}\ncertain = {_bool(certain)}\nsource = {_text(source)}"


def _rails(report: Mapping[str, Any]) -> list[str]:
    return [label for chip in report["chips"] for label in _channels(chip) if label != "NC"]


def _channels(chip: Mapping[str, Any]) -> list[str]:
    return list(chip["labels"][:1] if chip["driver"] == "ina238" else chip["labels"][:3])


def _sensors(report: Mapping[str, Any]) -> Iterable[str]:
    total = report["total"] or SUM_OF_RAILS
    yield f"\n[sensors]\nrails = {_list(_rails(report))}\ntotal = {_text(total)}"
    yield f"certain = false\nsource = {_text(f'{_SOURCE}; which rail is the total is inferred from the labels')}"


def _tree(report: Mapping[str, Any]) -> Iterable[str]:
    identity, gpu, emc = report["identity"], report["gpu"], report["emc"]
    policy, old = report["cpu"]["policies"][0], _major(identity["kernel"]) < 5
    path, _, devfreq = gpu["devfreq"].removeprefix("/sys/").rpartition("/devfreq/")
    minimum = policy["minimumKHz"] if policy["minimumKHz"] in policy["khz"] else policy["khz"][0]
    yield "\n[tree]"
    yield f"model = {_text(identity['model'])}"
    yield f"compatible = {_list(identity['compatible'])}"
    yield f"l4t_release = {_text(_release(identity['release']))}"
    yield f"gpu_path = {_text(path)}\ngpu_class = {_text(devfreq)}\ngpu_node = {_text(gpu['node'])}"
    yield f"qos = {_bool(not old)}\nemc = {_text('override' if emc['kind'] == 'override' else 'bpmp')}"
    yield f"emc_cap = {_text(emc['cap'].removeprefix('/sys/') or _DEFAULT_CAP)}"
    yield f"bwmgr = {_bool(bool(emc['bandwidthManager']))}"
    drivers = {chip["driver"] for chip in report["chips"]}
    yield f"power_driver = {_text('iio' if 'ina3221x' in drivers else 'hwmon')}"
    yield f"cpu_min_khz = {minimum}\nthermal_zones = {_list(report['zones'])}\nchips = ["
    for chip in report["chips"]:
        address, driver = _text(chip["address"]), _text(chip["driver"])
        yield f"    {{ address = {address}, driver = {driver}, channels = {_list(_channels(chip))} }},"
    yield "]"


def _presets(report: Mapping[str, Any]) -> Iterable[str]:
    for preset in report.get("presets", ()):
        yield f"\n[[presets]]\nid = {preset['id']}\nname = {_text(preset['name'])}"
        if watts := re.search(r"(\d+)W", preset["name"]):
            yield f"watts = {watts[1]}"
        yield f"cores = {preset['cores'] or len(report['cpu']['present'])}"
        for field, pattern in _CAPS.items():
            caps = [value for name, value in preset["caps"].items() if re.match(pattern, name) and value > 0]
            if caps:
                yield f"{field} = {min(caps)}"
        if preset.get("default"):
            yield "default = true"


def _release(release: str) -> str:
    """The catalogue keeps two numbers of a revision."""
    match = re.match(r"(R\d+ \(release\), REVISION: \d+\.\d+)", release)
    return match[1] if match else "R0 (release), REVISION: 0.0"


def _major(kernel: str) -> int:
    match = re.match(r"\d+", kernel)
    return int(match[0]) if match else 5


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _list(values: Sequence[int | str]) -> str:
    return f"[{', '.join(_text(value) if isinstance(value, str) else str(value) for value in values)}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"
