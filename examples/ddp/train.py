"""Data-parallel training over the replicas of a TrainingJob with PyTorch's DistributedDataParallel and torchrun.

Every step all replicas average their gradients, so all boards go at the pace of the slowest. The job therefore says
`coupling: Synchronous`: boards try modes one at a time, while the others hold still.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SAMPLES = int(os.environ.get("SAMPLES", "4096"))
EPOCHS = int(os.environ.get("POWERTRAIN_EPOCHS", "3"))
BATCH_SIZE = int(os.environ.get("POWERTRAIN_BATCH_SIZE", "16"))


def data():
    """Return points of the plane and on which side of a sine wave each lies."""
    points = torch.rand(SAMPLES, 2, generator=torch.Generator().manual_seed(0)) * 4 - 2
    return TensorDataset(points, (points[:, 1] > torch.sin(3 * points[:, 0])).long())


def main():
    """Train; torchrun has set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT."""
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu and dist.is_nccl_available() else "gloo")
    device = torch.device("cuda" if on_gpu else "cpu")
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    dataset = data()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, sampler=sampler)
    for epoch in range(1, EPOCHS + 1):
        sampler.set_epoch(epoch)
        hits = torch.zeros(1, device=device)
        for batch in loader:
            points, labels = (part.to(device) for part in batch)
            output = model(points)
            loss = nn.functional.cross_entropy(output, labels)
            optimizer.zero_grad()
            loss.backward()  # gradients are averaged here
            optimizer.step()
            hits += (output.argmax(1) == labels).sum()
        dist.all_reduce(hits)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: accuracy {float(hits) / SAMPLES:.3f} on {dist.get_world_size()} boards", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
