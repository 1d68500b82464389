"""Federated averaging over the replicas of a TrainingJob: each trains on its own data, only weights travel.

Every round each replica trains one pass over its data, then all take the mean of their weights (FedAvg; all
have as many samples). A round lasts as long as its slowest board: replica 0 prints how long each one took. In the end
every replica prints a fingerprint of its weights, which is the same for all.

Replicas meet at MASTER_ADDR:MASTER_PORT, by default the first of POWERTRAIN_PEERS. Where those names do not resolve
(pods that are processes of one machine), set MASTER_ADDR=127.0.0.1 and GLOO_SOCKET_IFNAME=lo.
"""

import hashlib
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPLICA = int(os.environ.get("POWERTRAIN_REPLICA", "0"))
REPLICAS = int(os.environ.get("POWERTRAIN_REPLICAS", "1"))
ROUNDS = int(os.environ.get("POWERTRAIN_EPOCHS", "5"))
BATCH_SIZE = int(os.environ.get("POWERTRAIN_BATCH_SIZE", "16"))
SAMPLES = int(os.environ.get("SAMPLES", "2048"))


def own_data():
    """Return what only this replica has: its own region of the plane, so that no replica alone can learn it all."""
    generator = torch.Generator().manual_seed(REPLICA)
    points = torch.rand(SAMPLES, 2, generator=generator) * 2 - 1
    points[:, 0] = points[:, 0] / REPLICAS + (2 * REPLICA + 1) / REPLICAS - 1
    return TensorDataset(points, label(points))


def label(points):
    """Return the truth: a checkerboard of four by four."""
    return ((points * 2).floor().sum(1) % 2).long()


def train(model, optimizer, loader):
    """Make one pass over the replica's own data."""
    board = simulated_board()
    for points, labels in loader:
        began_s = time.monotonic()
        loss = nn.functional.cross_entropy(model(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        board(began_s)


def simulated_board():
    """Return what makes a step last as long as on the simulated board; on a real one the board does that itself."""
    root = os.environ.get("POWERTRAIN_SIM_ROOT")
    if not root:
        return lambda began_s: None
    from pathlib import Path

    from powertrain_agent.simulate import SimulatedBoard

    scale = float(os.environ.get("POWERTRAIN_TIME_SCALE") or 1.0)
    board = SimulatedBoard.open(Path(root), time_scale=scale)

    def last(began_s):
        board.load("lstm", BATCH_SIZE, lasts_s=3.0 * scale)
        time.sleep(max(0.0, board.step_s() / scale - (time.monotonic() - began_s)))

    return last


def average(model):
    """Replace the weights by the mean over all replicas."""
    with torch.no_grad():
        for weights in model.state_dict().values():
            dist.all_reduce(weights)
            weights.div_(REPLICAS)


def fingerprint(model):
    """Return what is equal for equal weights only."""
    digest = hashlib.sha256()
    for weights in model.state_dict().values():
        digest.update(weights.numpy().tobytes())
    return digest.hexdigest()[:12]


def accuracy(model):
    """Return the share of the whole plane that is told right."""
    points = torch.rand(4000, 2, generator=torch.Generator().manual_seed(99)) * 2 - 1
    with torch.no_grad():
        return float((model(points).argmax(1) == label(points)).float().mean())


def new_model():
    """Return the model, with the same weights on every replica."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def main():
    """Run the rounds."""
    address = os.environ.get("MASTER_ADDR") or os.environ.get("POWERTRAIN_PEERS", "127.0.0.1").split(",")[0]
    meeting = f"tcp://{address}:{os.environ.get('MASTER_PORT', '29500')}"
    # Boards open their gates at different times: the first waits for the last.
    dist.init_process_group(
        "gloo", init_method=meeting, timeout=timedelta(minutes=30), world_size=REPLICAS, rank=REPLICA
    )
    model = new_model()
    loader = DataLoader(own_data(), batch_size=BATCH_SIZE, shuffle=True)
    for number in range(1, ROUNDS + 1):
        began_s = time.monotonic()
        train(model, torch.optim.Adam(model.parameters(), lr=3e-3), loader)
        took = torch.zeros(REPLICAS)
        took[REPLICA] = time.monotonic() - began_s
        average(model)
        dist.all_reduce(took)
        round_s, slowest = torch.tensor(time.monotonic() - began_s), int(took.argmax())
        dist.all_reduce(round_s, op=dist.ReduceOp.MAX)  # replicas do not begin a round at the very same moment
        if REPLICA == 0:
            each = ", ".join(f"{seconds:.2f}" for seconds in took.tolist())
            print(
                f"round {number}: {round_s:.2f} s, slowest is replica {slowest} with {took[slowest]:.2f} s "
                f"(each: {each} s), accuracy {accuracy(model):.3f}",
                flush=True,
            )
    print(f"replica {REPLICA} ends with the weights {fingerprint(model)} after {ROUNDS} rounds", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
