"""A plain PyTorch training with checkpoints. It knows nothing of PowerTrain and runs the same anywhere.

The data set is made up (two interleaved spirals), so that it trains in seconds on a CPU.
"""

import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 4096


def spirals(count: int) -> TensorDataset:
    """Return points of two spirals and which one each is of."""
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(count) % 2
    angle = torch.rand(count, generator=generator) * 9.0 + 0.5
    noise = torch.randn(count, 2, generator=generator) * 0.15
    points = torch.stack([angle * torch.cos(angle + label * torch.pi), angle * torch.sin(angle + label * torch.pi)], 1)
    return TensorDataset(points / 5.0 + noise / 5.0, label)


def main() -> None:
    """Train from the last checkpoint to the last epoch."""
    epochs = int(os.environ.get("EPOCHS", "20"))
    batch_size = int(os.environ.get("BATCH_SIZE", "16"))
    checkpoint = Path(os.environ.get("CHECKPOINTS", ".")) / "last.pt"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    epochs_done = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        epochs_done = saved["epoch"]
        print(f"continues after epoch {epochs_done}", flush=True)
    loader = DataLoader(spirals(SAMPLES), batch_size=batch_size, shuffle=True)
    for epoch in range(epochs_done + 1, epochs + 1):
        hits = 0
        for batch in loader:
            points, labels = (part.to(device) for part in batch)
            output = model(points)
            loss = nn.functional.cross_entropy(output, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits += int((output.argmax(1) == labels).sum())
        scratch = checkpoint.with_suffix(".tmp")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, scratch)
        scratch.replace(checkpoint)  # in one step: a kill never leaves half a checkpoint
        print(f"epoch {epoch}: accuracy {hits / SAMPLES:.3f}", flush=True)


if __name__ == "__main__":
    main()
