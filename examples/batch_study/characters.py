"""A small character transformer on texts that come with Python: pre-trained on one, trained on another.

    powertrain batch-study run --out docstrings.json --batch-sizes 16,32,64 --target-accuracy 0.33 \
        --learning-rate 8e-3 --seeds 3 --max-samples 20000 -- python examples/batch_study/characters.py docstrings

Texts: `topics` (Python's help topics), `docstrings` and `comments` (of the standard library's modules). The accuracy is
that of the next character.
"""

from __future__ import annotations

import ast
import os
import re
import string
import sys
import tokenize
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

import powertrain_sdk as powertrain

LETTERS = string.ascii_letters + string.digits + string.punctuation + " \n"
LENGTH, WIDTH, LARGEST = 32, 48, 120_000  # characters of a sequence, of the network, of a text
EVALUATE_EVERY, TESTED = 128, 128

Reached = Callable[[float], bool]


def topics() -> str:
    """Return Python's help topics."""
    from pydoc_data.topics import topics as topics_by_name

    return "\n".join(topics_by_name[name] for name in sorted(topics_by_name))


def docstrings() -> str:
    """Return the docstrings of the standard library's modules."""
    texts = []
    for path in _modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
        texts += [text for node in nodes if (text := ast.get_docstring(node))]
    return "\n".join(texts)


def comments() -> str:
    """Return the comments in the standard library's modules."""
    texts = []
    for path in _modules():
        with path.open("rb") as file:
            texts += [
                token.string.lstrip("# ")
                for token in tokenize.tokenize(file.readline)
                if token.type == tokenize.COMMENT
            ]
    return "\n".join(texts)


def _modules() -> list[Path]:
    """Return some modules of the standard library, always the same."""
    names = ("argparse", "configparser", "datetime", "doctest", "inspect", "mailbox", "optparse", "pdb", "pickle",
             "subprocess", "tarfile", "threading", "turtle", "typing", "zipfile")  # fmt: skip
    folder = Path(ast.__file__).parent
    return [path for name in names if (path := folder / f"{name}.py").exists()]


TEXTS = {"topics": topics, "docstrings": docstrings, "comments": comments}


@cache
def load(name: str) -> torch.Tensor:
    """Return a text as the numbers of its characters; others than English ones are left out."""
    text = re.sub(r"[ \t]+", " ", TEXTS[name]())[:LARGEST]
    index_of = {letter: index for index, letter in enumerate(LETTERS)}
    return torch.tensor([index_of[letter] for letter in text if letter in index_of])


class CharacterTransformer(nn.Module):
    """Predicts the next character at every position."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.positions = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, len(LETTERS))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        """Return the scores of each next character."""
        x = self.letters(letters) + self.positions.weight
        return self.out(self.layers(x, mask=self.mask))


@cache
def pretrained(name: str = "topics") -> dict[str, Any]:
    """Return the weights that every run starts from."""
    torch.manual_seed(0)
    model = CharacterTransformer()
    train(model, name, 16, 3e-3, 0, _after(4800))
    return model.state_dict()


def fine_tune(name: str, batch_size: int, learning_rate: float, seed: int, reached: Reached) -> None:
    """Train the pre-trained network on a text until `reached` says so."""
    model = CharacterTransformer()
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
    """Train with AdamW; every 128 sequences the accuracy on the text's last tenth decides whether to go on.

    One evaluation is noisy, so the last three are averaged.
    """
    text = load(name)
    border = len(text) * 9 // 10
    held_out = torch.linspace(border, len(text) - LENGTH - 2, TESTED).long()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    since, recent = 0, deque[float](maxlen=3)
    while True:
        starts = torch.randint(border - LENGTH - 1, (batch_size,), generator=generator)
        now, following = _sequences(text, starts)
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(now).flatten(0, 1), following.flatten()).backward()
        optimizer.step()
        stepped()
        since += batch_size
        if since >= EVALUATE_EVERY:
            since = 0
            with torch.no_grad():
                now, following = _sequences(text, held_out)
                right = (model(now).argmax(dim=2) == following).float().mean()
            recent.append(float(right))
            if reached(sum(recent) / len(recent)):
                return


def _sequences(text: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = starts[:, None] + torch.arange(LENGTH)
    return text[rows], text[rows + 1]


def _after(samples: int) -> Reached:
    """Return what stops a training after so many samples."""
    evaluations = iter(range(samples // EVALUATE_EVERY))
    return lambda _: next(evaluations, None) is None


if __name__ == "__main__":
    torch.set_num_threads(1)
    pretrained()
    seed = int(os.environ.get("POWERTRAIN_SEED", "0"))
    fine_tune(sys.argv[1], powertrain.batch_size(16), powertrain.learning_rate(3e-3), seed, powertrain.reached)
