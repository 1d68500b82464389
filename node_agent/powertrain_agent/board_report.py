"""A board as one JSON document: all that a maintainer needs to add it to the catalogue.

No host name, serial number, address or path of a user is in it: only what is listed here is read.
"""

from __future__ import annotations

import re
from typing import Any

from powertrain_agent.doctor import DoctorReport
from powertrain_agent.hardware.board import Board, discover
from powertrain_agent.hardware.emc import BANDWIDTH_MANAGER, CAPS
from powertrain_agent.hardware.files import number, optional
from powertrain_agent.hardware.identity import RELEASE
from powertrain_agent.hardware.sensors import I2C
from powertrain_agent.sysfs import Sysfs

FORMAT = 1
_OSRELEASE = "/proc/sys/kernel/osrelease"
_NVPMODEL = "/etc/nvpmodel.conf"
_CHANNELS = range(3)


def collect(sysfs: Sysfs, doctor: DoctorReport) -> dict[str, Any]:
    """Read what describes the board, and add what the doctor found."""
    board = discover(sysfs)
    return {
        "format": FORMAT,
        "identity": _identity(sysfs, board),
        "cpu": _cpu(sysfs, board),
        "gpu": _gpu(sysfs, board),
        "emc": _emc(sysfs, board),
        "chips": _chips(sysfs),
        "total": board.sensors.total,
        "zones": list(board.thermal.zones),
        "alerts": list(board.thermal.alerts),
        "overCurrent": list(board.thermal.over_current),
        "fan": board.fan.pwm_path if board.fan else "",
        "mask": board.tpc_mask,
        "presets": _presets(optional(sysfs, _NVPMODEL) or ""),
        "doctor": {"verdict": doctor.verdict, "hints": list(doctor.hints), "knobs": doctor.as_dict()["knobs"]},
    }


def _identity(sysfs: Sysfs, board: Board) -> dict[str, Any]:
    compatible = optional(sysfs, "/proc/device-tree/compatible") or ""
    release = re.search(r"R\d+ \(release\), REVISION: [\d.]+", optional(sysfs, RELEASE) or "")
    return {
        "model": board.identity.model,
        "compatible": [word for word in compatible.split("\0") if word],
        "module": board.identity.module,
        "soc": board.identity.soc,
        "release": release[0] if release else "",
        "kernel": (optional(sysfs, _OSRELEASE) or "").partition("-")[0],
    }


def _cpu(sysfs: Sysfs, board: Board) -> dict[str, Any]:
    return {
        "present": list(board.cpu.present),
        "policies": [
            {
                "path": policy.path,
                "cpus": list(policy.cpus),
                "khz": list(policy.table_khz),
                "minimumKHz": number(sysfs, policy.min_path),
                "driver": optional(sysfs, f"{policy.path}/scaling_driver"),
                "governors": (optional(sysfs, f"{policy.path}/scaling_available_governors") or "").split(),
            }
            for policy in board.cpu.policies
        ],
    }


def _gpu(sysfs: Sysfs, board: Board) -> dict[str, Any]:
    gpu = board.gpu
    if gpu is None:
        return {}
    return {
        "device": gpu.device_path,
        "devfreq": gpu.path,
        "node": optional(sysfs, f"{gpu.device_path}/of_node/name") or "",
        "hz": list(gpu.table_hz),
        "governors": (optional(sysfs, f"{gpu.path}/available_governors") or "").split(),
        "files": sysfs.list(gpu.device_path),
    }


def _emc(sysfs: Sysfs, board: Board) -> dict[str, Any]:
    emc = board.emc
    return {
        "kind": emc.kind.value if emc else "",
        "hz": list(emc.table_hz) if emc else [],
        "files": list(emc.paths) if emc else [],
        "cap": next((path for path in CAPS if sysfs.exists(path)), ""),
        "bandwidthManager": sysfs.list(BANDWIDTH_MANAGER),
    }


def _chips(sysfs: Sysfs) -> list[dict[str, Any]]:
    chips = []
    for address in sysfs.list(I2C):
        driver = optional(sysfs, f"{I2C}/{address}/name") or ""
        if not re.fullmatch(r"ina3221x?|ina238", driver):
            continue
        base = f"{I2C}/{address}"
        hwmon = [f"{base}/hwmon/{name}" for name in sysfs.list(f"{base}/hwmon")]
        iio = [f"{base}/{name}" for name in sysfs.list(base) if name.startswith("iio:device")]
        labels = [optional(sysfs, f"{path}/in{channel + 1}_label") for path in hwmon for channel in _CHANNELS]
        labels += [optional(sysfs, f"{path}/rail_name_{channel}") for path in iio for channel in _CHANNELS]
        files = sorted({name for path in (*hwmon, *iio) for name in sysfs.list(path)})
        chips.append(
            {"address": address, "driver": driver, "labels": [label or "NC" for label in labels], "files": files}
        )
    return chips


def _presets(text: str) -> list[dict[str, Any]]:
    """The modes of nvpmodel's file: name, cores that are online, and caps as they are written there."""
    rows: list[dict[str, Any]] = []
    for line in text.splitlines():
        if head := re.match(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)\s*>", line):
            rows.append({"id": int(head[1]), "name": head[2], "cores": 0, "caps": {}})
        elif rows and re.match(r"CPU_ONLINE CORE_\d+ 1\b", line):
            rows[-1]["cores"] += 1
        elif rows and (cap := re.match(r"(\w+) MAX_FREQ (-?\d+)", line)):
            rows[-1]["caps"][cap[1]] = int(cap[2])
        elif default := re.match(r"<\s*PM_CONFIG\s+DEFAULT=(\d+)", line):
            for preset in rows:
                preset["default"] = preset["id"] == int(default[1])
    return rows
