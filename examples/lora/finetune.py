"""Fine-tunes a small language model by LoRA on text that this machine makes itself: no download, no data set.

With `transformers` and `peft` installed it adapts a small GPT-2 (or MODEL, a folder or name that transformers loads).
Without them a small transformer and a LoRA layer of the same kind are written out below. Both train only the adapters.
"""

import math
import os

import torch
from torch import nn

EPOCHS = int(os.environ.get("POWERTRAIN_EPOCHS", "3"))
BATCH_SIZE = int(os.environ.get("POWERTRAIN_BATCH_SIZE", "8"))
SEQUENCES = int(os.environ.get("SEQUENCES", "512"))
LENGTH, RANK, SYMBOLS = 64, 8, 128


def text(count):
    """Return sentences about sums, such as "17+25=42;", as rows of character codes."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(count):
        row = ""
        while len(row) < LENGTH + 1:
            a, b = torch.randint(0, 100, (2,), generator=generator).tolist()
            row += f"{a}+{b}={a + b};"
        rows.append([ord(letter) for letter in row[: LENGTH + 1]])
    return torch.tensor(rows)


class LoRALinear(nn.Module):
    """A frozen linear layer with a trained correction of low rank."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(RANK, base.in_features) / math.sqrt(base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, RANK))

    def forward(self, x):
        """Return the layer's output with the correction."""
        return self.base(x) + x @ self.down.T @ self.up.T


class Block(nn.Module):
    """One block of a transformer, with adapters in its feed-forward part."""

    def __init__(self, width):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.feed = nn.Sequential(
            LoRALinear(nn.Linear(width, 4 * width)), nn.GELU(), LoRALinear(nn.Linear(4 * width, width))
        )

    def forward(self, x, mask):
        """Return the block's output."""
        normed = self.norms[0](x)
        x = x + self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
        return x + self.feed(self.norms[1](x))


class SmallModel(nn.Module):
    """A transformer for characters; all but its adapters and its last layer is frozen."""

    def __init__(self, width=128, blocks=2):
        super().__init__()
        self.letters, self.places = nn.Embedding(SYMBOLS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(blocks)])
        self.head = nn.Linear(width, SYMBOLS)
        for name, parameter in self.named_parameters():
            parameter.requires_grad = name.endswith((".down", ".up")) or name.startswith("head")

    def forward(self, letters):
        """Return what may follow each character."""
        length = letters.shape[1]
        mask = torch.full((length, length), float("-inf"), device=letters.device).triu(1)
        x = self.letters(letters) + self.places(torch.arange(length, device=letters.device))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


def load_model():
    """Return a model whose adapters alone train, and how to get its prediction from characters."""
    try:
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
    except ImportError:
        model = SmallModel()
        return model, model
    name = os.environ.get("MODEL")
    config = GPT2Config(vocab_size=SYMBOLS, n_positions=LENGTH, n_embd=128, n_layer=2, n_head=4)
    model = AutoModelForCausalLM.from_pretrained(name) if name else GPT2LMHeadModel(config)
    model = get_peft_model(model, LoraConfig(r=RANK, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True))
    return model, lambda letters: model(input_ids=letters).logits


def main():
    """Train the adapters."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    model, predict = load_model()
    model.to(device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    share = sum(p.numel() for p in trained) / sum(p.numel() for p in model.parameters())
    print(f"trains {share:.1%} of the weights on {device}", flush=True)
    optimizer = torch.optim.AdamW(trained, lr=3e-3)
    rows = text(SEQUENCES).to(device)
    for epoch in range(1, EPOCHS + 1):
        total = 0.0
        for batch in rows[torch.randperm(len(rows))].split(BATCH_SIZE):
            output = predict(batch[:, :-1])
            loss = nn.functional.cross_entropy(output.flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(batch)
        print(f"epoch {epoch}: loss {total / len(rows):.3f}", flush=True)


if __name__ == "__main__":
    main()
