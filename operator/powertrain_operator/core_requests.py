"""How many cores a node's pods need: the floor below which `cpuCores: Hotplug` takes no core offline."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from math import ceil
from typing import Any

from powertrain_operator.resources import JOB_UID_LABEL

Object = dict[str, Any]
_MILLI = 1000
_TERMINAL = ("Succeeded", "Failed")
_SUFFIXES = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal("1e3")}
MAX_CORES = 256


def answer_key(node: str) -> str:
    """Return what the cache keeps a node's count under."""
    return f"requested/{node}"


def millicores(quantity: object) -> int:
    """Return a CPU quantity of the API (`500m`, `2`, `0.5`) in thousandths of a core, rounded up."""
    text = str(quantity)
    factor = _SUFFIXES.get(text[-1:], Decimal(1))
    try:
        return ceil(Decimal(text[:-1] if text[-1:] in _SUFFIXES else text) * factor * _MILLI)
    except (InvalidOperation, ValueError, OverflowError):
        return MAX_CORES * _MILLI  # nobody knows how many: all of them


def of_pod(spec: Object) -> int:
    """Return what the scheduler counts for a pod: its containers or a larger init container, and overhead."""
    init = spec.get("initContainers") or []
    sidecars = sum(_of(each) for each in init if each.get("restartPolicy") == "Always")
    running = sum(_of(each) for each in spec.get("containers") or []) + sidecars
    starting = max((_of(each) + sidecars for each in init if each.get("restartPolicy") != "Always"), default=0)
    return max(running, starting) + millicores((spec.get("overhead") or {}).get("cpu", "0"))


def of_others(pods: Iterable[Object]) -> int:
    """Return what the pods of a node request that are not over and belong to no TrainingJob."""
    return sum(
        of_pod(pod.get("spec") or {})
        for pod in pods
        if (pod.get("status") or {}).get("phase") not in _TERMINAL
        and JOB_UID_LABEL not in (pod["metadata"].get("labels") or {})
    )


def core_floor(requested_millicores: int, min_cores: int | None) -> int:
    """Return how many cores must stay online: what is requested, rounded up, and the policy's minimum."""
    return max(1, min(MAX_CORES, max(ceil(requested_millicores / _MILLI), min_cores or 1)))


def _of(container: Object) -> int:
    resources = container.get("resources") or {}
    # Without a request the limit counts as one, as the API server sets it.
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return millicores(amounts.get("cpu", "0"))
