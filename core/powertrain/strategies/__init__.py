"""The registry of strategies: adding one is adding a file and a line here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from powertrain.profiling.problem import Problem
from powertrain.strategies.base import Strategy

# name → module and class; imported when asked for, so that nobody pays for torch who does not use it.
_REGISTRY = {
    "transfer": ("powertrain.strategies.transfer", "Transfer"),
    "powertrain": ("powertrain.strategies.powertrain_nn", "PowerTrain"),
    "powertrain-head-first": ("powertrain.strategies.powertrain_nn", "PowerTrainHeadFirst"),
    "nn": ("powertrain.strategies.powertrain_nn", "NeuralNetwork"),
    "linear": ("powertrain.strategies.regressors", "Linear"),
    "tree": ("powertrain.strategies.regressors", "Tree"),
    "forest": ("powertrain.strategies.regressors", "Forest"),
    "mlp": ("powertrain.strategies.regressors", "Mlp"),
    "ucb": ("powertrain.strategies.ucb", "Ucb"),
    "random-pareto": ("powertrain.strategies.random_pareto", "RandomPareto"),
    "staircase": ("powertrain.strategies.staircase", "Staircase"),
    "brute-force": ("powertrain.strategies.brute_force", "BruteForce"),
    "maxn": ("powertrain.strategies.fixed", "MaxN"),
    "preset": ("powertrain.strategies.fixed", "PresetByLabel"),
}

# module → packages of the extra `nn` without which its strategies can't run
_NEEDS = {
    "powertrain.strategies.powertrain_nn": ("torch", "safetensors"),
    "powertrain.strategies.regressors": ("sklearn",),
}


class UnknownStrategyError(ValueError):
    """A strategy that does not exist; the message lists those that do."""


def names() -> tuple[str, ...]:
    """Return the names of all strategies, the default first."""
    return tuple(_REGISTRY)


def runnable(is_installed: Callable[[str], bool] = lambda package: find_spec(package) is not None) -> tuple[str, ...]:
    """Return the names of the strategies whose packages are installed here, the default first."""
    return tuple(name for name, (module, _) in _REGISTRY.items() if all(map(is_installed, _NEEDS.get(module, ()))))


def strategy_class(name: str) -> Callable[..., Strategy]:
    """Return the class of a strategy; it is built with a Problem and, where it learns from one, a Reference."""
    return _load(name)


def default_max_modes(name: str) -> int | None:
    """Return how many modes a strategy measures where the plan does not say; None: every mode."""
    return _load(name).default_max_modes


def needs_network(name: str) -> bool:
    """Say whether a strategy fine-tunes the networks of its reference."""
    return bool(getattr(_load(name), "needs_network", False))


def learns_from_reference(name: str) -> bool:
    """Say whether a strategy starts from what a reference teaches."""
    return bool(getattr(_load(name), "learns_from_reference", False))


def is_cautious(name: str) -> bool:
    """Say whether a strategy minds risk and the limit of each trial, where others choose by the mean alone."""
    return bool(getattr(_load(name), "is_cautious", False))


def _load(name: str) -> type[Strategy]:
    if name not in _REGISTRY:
        raise UnknownStrategyError(f"unknown strategy {name!r}; known: {', '.join(names())}")
    module, attribute = _REGISTRY[name]
    loaded: type[Strategy] = getattr(import_module(module), attribute)
    return loaded


def build(name: str, problem: Problem, reference: object | None = None) -> Strategy:
    """Return a strategy for a problem."""
    return strategy_class(name)(problem, reference)
