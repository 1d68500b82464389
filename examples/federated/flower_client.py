"""The same training as fedavg.py as a client of Flower, for sites that have a Flower server (`pip install flwr`).

Start it with FLOWER_SERVER=host:port instead of fedavg.py. Flower decides on rounds and averages the weights;
PowerTrain finds each board's mode, as it does for fedavg.py.
"""

import os

import torch
from fedavg import BATCH_SIZE, REPLICA, accuracy, new_model, own_data, train
from torch.utils.data import DataLoader


def weights_of(model):
    """Return the weights as arrays, which is what Flower sends."""
    return [weights.cpu().numpy() for weights in model.state_dict().values()]


def set_weights(model, arrays):
    """Take over weights that the server has averaged."""
    names = list(model.state_dict())
    model.load_state_dict({name: torch.as_tensor(arrays[n]) for n, name in enumerate(names)}, strict=True)


def main():
    """Serve rounds until the server ends."""
    import flwr

    model = new_model()
    loader = DataLoader(own_data(), batch_size=BATCH_SIZE, shuffle=True)

    class Client(flwr.client.NumPyClient):
        """One board."""

        def fit(self, parameters, config):
            """Make one pass over the board's own data."""
            set_weights(model, parameters)
            train(model, torch.optim.Adam(model.parameters(), lr=3e-3), loader)
            return weights_of(model), len(loader.dataset), {}

        def evaluate(self, parameters, config):
            """Tell how much of the plane the averaged weights get right."""
            set_weights(model, parameters)
            right = accuracy(model)
            return 1.0 - right, len(loader.dataset), {"accuracy": right, "replica": REPLICA}

    server = os.environ["FLOWER_SERVER"]
    flwr.client.start_client(server_address=server, client=Client().to_client())


if __name__ == "__main__":
    main()
