"""The papers' neural networks: one for step time, one for power; trained with torch, evaluated with numpy."""

from powertrain.networks.network import Network, NetworkPair
from powertrain.networks.recipe import RECIPE_VERSION, Loss, Recipe
from powertrain.networks.training import TorchMissingError, train_pair, transfer_pair

__all__ = [
    "RECIPE_VERSION",
    "Loss",
    "Network",
    "NetworkPair",
    "Recipe",
    "TorchMissingError",
    "train_pair",
    "transfer_pair",
]
