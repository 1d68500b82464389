"""A small CNN on 8×8 images: pre-trained on one data set, then trained on another until a target accuracy.

    powertrain batch-study run --out digits.json --batch-sizes 16,32,64,128 --target-accuracy 0.9 \
        --learning-rate 1e-2 --seeds 5 --max-samples 30000 -- python examples/batch_study/images.py digits

Data sets of one task and shape (ten classes): `segments` (generated seven-segment digits), `blobs` (generated smooth
patterns) and `digits` (scikit-learn's handwritten ones).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

import powertrain_sdk as powertrain

# Which segments a digit lights: top, top left, top right, middle, bottom left, bottom right, bottom.
SEGMENTS = (
    "1110111",
    "0010010",
    "1011101",
    "1011011",
    "0111010",
    "1101011",
    "1101111",
    "1010010",
    "1111111",
    "1111011",
)
STROKES = ((0, 1, 1, 5), (1, 3, 0, 1), (1, 3, 5, 6), (3, 4, 1, 5), (4, 6, 0, 1), (4, 6, 5, 6), (6, 7, 1, 5))
IMAGES, EVALUATE_EVERY, TESTED = 1500, 512, 400

Reached = Callable[[float], bool]


def segments(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return seven-segment digits, shifted, thinned and noisy."""
    labels = rng.integers(0, 10, IMAGES)
    images = np.zeros((IMAGES, 8, 8))
    for image, label in zip(images, labels, strict=True):
        glyph = np.zeros((8, 8))
        for lit, (top, bottom, left, right) in zip(SEGMENTS[label], STROKES, strict=True):
            if lit == "1":
                glyph[top:bottom, left:right] = rng.uniform(0.5, 1.0)
        image[:] = np.roll(glyph, rng.integers(0, 2, 2), axis=(0, 1))
    return images + rng.normal(0, 0.25, images.shape), labels


def blobs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return ten smooth patterns of four blobs each, shifted, faded and noisy."""
    fixed, grid = np.random.default_rng(7), np.stack(np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    centres = fixed.uniform(0, 8, (10, 4, 2, 1, 1))
    patterns = np.exp(-((grid - centres) ** 2).sum(axis=2) / 2.0).sum(axis=1)
    labels = rng.integers(0, 10, IMAGES)
    images = patterns[labels] * rng.uniform(0.5, 1.0, (IMAGES, 1, 1))
    shifted = np.stack([np.roll(image, rng.integers(-1, 2, 2), axis=(0, 1)) for image in images])
    return shifted + rng.normal(0, 0.25, shifted.shape), labels


def digits(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's handwritten digits in random order."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = rng.permutation(len(data.target))
    return data.images[order] / 16.0, data.target[order]


DATA_SETS = {"segments": segments, "blobs": blobs, "digits": digits}


@cache
def load(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels of a data set, the same ones every time."""
    images, labels = DATA_SETS[name](np.random.default_rng(0))
    return torch.tensor(images, dtype=torch.float32)[:, None], torch.tensor(labels, dtype=torch.long)


def network() -> nn.Sequential:
    """Return an untrained network."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


@cache
def pretrained(name: str = "segments") -> dict[str, Any]:
    """Return the weights that every run starts from."""
    torch.manual_seed(0)
    model = network()
    train(model, name, 32, 2e-3, 0, _after(6000))
    return model.state_dict()


def fine_tune(name: str, batch_size: int, learning_rate: float, seed: int, reached: Reached) -> None:
    """Train the pre-trained network on a data set until `reached` says so."""
    model = network()
    model.load_state_dict(pretrained())
    train(model, name, batch_size, learning_rate, seed, reached, powertrain.step)


def train(
    model: nn.Module,
    name: str,
    batch_size: int,
    learning_rate: float,
    seed: int,
    reached: Reached,
    stepped: Callable[[], None] = lambda: None,
) -> None:
    """Train with Adam; every 512 samples the accuracy on held-out images decides whether to go on."""
    images, labels = load(name)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    since = 0
    while True:
        order = torch.randperm(len(images) - TESTED, generator=generator) + TESTED
        for batch in order.split(batch_size):
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            stepped()
            since += batch_size
            if since >= EVALUATE_EVERY:
                since = 0
                with torch.no_grad():
                    right = (model(images[:TESTED]).argmax(dim=1) == labels[:TESTED]).float().mean()
                if reached(float(right)):
                    return


def _after(samples: int) -> Reached:
    """Return what stops a training after so many samples."""
    evaluations = iter(range(samples // EVALUATE_EVERY))
    return lambda _: next(evaluations, None) is None


if __name__ == "__main__":
    torch.set_num_threads(1)
    pretrained()
    seed = int(os.environ.get("POWERTRAIN_SEED", "0"))
    fine_tune(sys.argv[1], powertrain.batch_size(32), powertrain.learning_rate(2e-3), seed, powertrain.reached)
