"""`nn`, `powertrain`, `powertrain-head-first`: random modes, the papers' networks, and the papers' choice."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import ClassVar

from powertrain.choosing import Choice
from powertrain.networks.network import NetworkPair
from powertrain.networks.recipe import HEAD_FIRST_RECIPE, TRANSFER_RECIPE, Loss, Recipe
from powertrain.networks.training import FEWEST_MODES, train_pair, transfer_pair
from powertrain.objectives import Limits
from powertrain.prediction import Prediction
from powertrain.profiling.history import History
from powertrain.profiling.problem import Problem
from powertrain.reference import Reference, ReferenceError
from powertrain.space import BoolArray
from powertrain.strategies.base import Proposal, StrategyUnavailableError, random_order
from powertrain.strategies.by_prediction import next_random, select_predicted

INSTALL = "pip install '.[nn]' in a checkout"


class NeuralNetwork:
    """The papers' network, trained from scratch on random modes."""

    name: ClassVar[str] = "nn"
    default_max_modes: ClassVar[int | None] = 100
    summary: ClassVar[str] = "the papers' neural network from scratch on n random modes"

    def __init__(self, problem: Problem, reference: object | None = None) -> None:
        missing = [module for module in ("torch", "safetensors") if find_spec(module) is None]
        if missing:
            raise StrategyUnavailableError(f"strategy {self.name!r} needs {' and '.join(missing)}: {INSTALL}")
        self._problem = problem
        self._rank = random_order(problem)
        self._fitted: tuple[bytes, NetworkPair] | None = None

    def propose(self, history: History, allowed: BoolArray) -> Proposal | None:
        """Return the next mode of the seed's random order."""
        return next_random(self._rank, allowed)

    def predict(self, history: History) -> Prediction | None:
        """Return the networks' prediction of every mode, None before there is enough to learn from."""
        if len(history.modes) < FEWEST_MODES:
            return None
        return self._networks(history).predict(self._problem.modes)

    def validation_percent(self, history: History) -> tuple[float, float] | None:
        """Return the networks' mean absolute errors of time and power on the rows they did not learn from."""
        if len(history.modes) < FEWEST_MODES:
            return None
        networks = self._networks(history)
        return networks.time.validation_mape_pct, networks.power.validation_mape_pct

    def select(self, history: History, limits: Limits) -> Choice:
        """Return the papers' choice at a risk of one half or more, else one that counts with the networks' error."""
        return select_predicted(self._problem, history, self.predict(history), limits)

    def _networks(self, history: History) -> NetworkPair:
        """Return the networks of these samples; training takes seconds, so the last ones are kept."""
        key = b"".join(part.tobytes() for part in (history.modes, history.step_s, history.power_w))
        if self._fitted is None or self._fitted[0] != key:
            self._fitted = (key, self._train(history))
        return self._fitted[1]

    def _train(self, history: History) -> NetworkPair:
        return train_pair(history.modes, history.step_s, history.power_w, self._problem.seed)


class PowerTrain(NeuralNetwork):
    """The papers' transfer: the reference's networks with a fresh last layer, fine-tuned on random modes."""

    name: ClassVar[str] = "powertrain"
    default_max_modes: ClassVar[int | None] = 50
    needs_network: ClassVar[bool] = True
    learns_from_reference: ClassVar[bool] = True
    summary: ClassVar[str] = "the papers' transfer learning: the reference's networks fine-tuned on n random modes"
    recipe: ClassVar[Recipe] = TRANSFER_RECIPE

    def __init__(self, problem: Problem, reference: object | None = None) -> None:
        super().__init__(problem)
        if not isinstance(reference, Reference) or not reference.has_network:
            problem_words = (
                f"{reference.card.name!r} has none" if isinstance(reference, Reference) else "none was given"
            )
            raise StrategyUnavailableError(
                f"strategy {self.name!r} needs a reference with networks, {problem_words}; make one with: "
                "powertrain reference train DATA.csv --device NAME --workload NAME --out DIR"
            )
        try:
            self._parent = reference.network()
        except ReferenceError as error:
            raise StrategyUnavailableError(f"strategy {self.name!r} can't use its reference: {error}") from None
        self._reference_device = reference.card.device

    def _train(self, history: History) -> NetworkPair:
        # The papers found MSE unfit for a very different board, where errors relative to the target carry over better.
        devices = {self._problem.device, self._reference_device} - {None}
        recipe = self.recipe if len(devices) < 2 else replace(self.recipe, loss=Loss.MAPE)
        samples = history.modes, history.step_s, history.power_w
        return transfer_pair(self._parent, *samples, self._problem.seed, recipe)


class PowerTrainHeadFirst(PowerTrain):
    """The same, but the fresh last layer is trained alone first."""

    name: ClassVar[str] = "powertrain-head-first"
    summary: ClassVar[str] = "powertrain with the fresh last layer trained alone first"
    recipe: ClassVar[Recipe] = HEAD_FIRST_RECIPE
