"""A small PyTorch training that knows nothing of PowerTrain: two optimizers, accumulation, loader workers."""

import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--batches", type=int, default=24)
    options.add_argument("--accumulate", type=int, default=1)
    options.add_argument("--workers", type=int, default=0)
    options.add_argument("--context", default=None)
    options.add_argument("--compile", action="store_true")
    arguments = options.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(arguments.batches * 4, 8), torch.randint(0, 2, (arguments.batches * 4,)))
    loader = DataLoader(data, 4, num_workers=arguments.workers, multiprocessing_context=arguments.context)
    body, head = nn.Linear(8, 8), nn.Linear(8, 2)
    model = nn.Sequential(body, nn.ReLU(), head)
    forward = torch.compile(model, backend="eager") if arguments.compile else model
    first, second = torch.optim.AdamW(body.parameters()), torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(first, 10)
    for index, (inputs, labels) in enumerate(loader, 1):
        nn.functional.cross_entropy(forward(inputs), labels).backward()
        if index % arguments.accumulate == 0:
            for optimizer in (first, second):
                optimizer.step()
                optimizer.zero_grad()
            schedule.step()
    sys.stdout.write("trained\n")


if __name__ == "__main__":
    main()
