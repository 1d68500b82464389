"""A training as users write them: a small residual network in plain PyTorch, which knows nothing of PowerTrain.

    python benchmarks/plain_training.py [EPOCHS]

benchmarks/sdk.py runs it as a pod would. It prints a line every ten steps: number, loss, seconds a step.
"""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EVERY = 10


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(images + self.second(self.first(images)))


def main(epochs: int) -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(2048, 3, 32, 32), torch.randint(0, 10, (2048,)))
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), Block(16), Block(16), nn.Conv2d(16, 32, 3, stride=2), Block(32),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    number, began_s = 0, time.perf_counter()
    for _ in range(epochs):
        for images, labels in DataLoader(data, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            number += 1
            if number % EVERY == 0:
                now_s = time.perf_counter()
                print(number, f"{loss.item():.4f}", f"{(now_s - began_s) / EVERY:.6f}", flush=True)
                began_s = now_s


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
