"""Recipe: how a network is trained; the defaults are the first paper's Table 4."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Rises when a change here or in the training makes other weights out of the same data and seed.
RECIPE_VERSION = 2


class Loss(StrEnum):
    """What training makes small. The paper takes MAPE when a network moves to a very different board."""

    MSE = "mse"
    MAPE = "mape"


@dataclass(frozen=True, slots=True)
class Phase:
    """A number of epochs at one learning rate, over all layers or the last one alone."""

    epochs: int
    learning_rate: float
    head_only: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that training needs besides data and seed.

    `row_repeats` stands for the paper's 40 recorded steps a mode, of which a table keeps the median. Rows are split
    after that, as in the paper, so with few modes most held-out rows are of a mode that was also learned from.
    `rescale` divides the targets by the ratio of their mean to the reference's.
    """

    phases: tuple[Phase, ...] = (Phase(epochs=100, learning_rate=1e-3),)
    dropout: tuple[float, float] = (0.4, 0.3)
    loss: Loss = Loss.MSE
    row_batch: int = 32
    row_repeats: int = 40
    validation_share: float = 0.1
    rescale: bool = False


# The paper names the places of dropout, not its rates: training from scratch is best served by much, fine-tuning by
# little (ResNet → LSTM, 50 modes, time: 7.0 % with the rates above, 5.5 % with these).
FEW_MODES_RECIPE = Recipe()
TRANSFER_RECIPE = Recipe(dropout=(0.1, 0.1))
# The fresh last layer is trained alone first, so that its random gradients do not wreck the reference's features.
HEAD_FIRST_RECIPE = Recipe(
    phases=(Phase(epochs=20, learning_rate=1e-3, head_only=True), Phase(epochs=80, learning_rate=1e-4)),
    dropout=(0.1, 0.1),
    rescale=True,
)

# The size of the paper's reference table; it needs no repeats, an epoch has as many steps as with 100 repeated modes.
PAPER_REFERENCE_ROWS = 4368


def reference_recipe(rows: int) -> Recipe:
    """Return the recipe for a reference's own table: a smaller one is repeated up to the paper's size."""
    return Recipe(row_repeats=min(FEW_MODES_RECIPE.row_repeats, max(1, round(PAPER_REFERENCE_ROWS / rows))))
