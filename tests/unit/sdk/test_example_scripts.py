"""The scripts of examples/ that need PyTorch train here, on the CPU."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]


def run(*command: str, **env: str) -> str:
    result = subprocess.run(
        [sys.executable, *command], env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=240
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_lora_trains_few_weights_and_learns() -> None:
    output = run(str(EXAMPLES / "lora/finetune.py"), POWERTRAIN_EPOCHS="2", SEQUENCES="64")
    [share] = re.findall(r"trains ([\d.]+)% of the weights", output)
    first, last = map(float, re.findall(r"loss ([\d.]+)", output))
    assert float(share) < 20
    assert last < first


def test_two_replicas_train_one_model_by_ddp() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    where = ("--nnodes", "1", "--nproc_per_node", "2", "--master_addr", "127.0.0.1", "--master_port", port)
    script = str(EXAMPLES / "ddp/train.py")
    output = run("-m", "torch.distributed.run", *where, script, POWERTRAIN_EPOCHS="2", SAMPLES="512")
    assert re.findall(r"epoch (\d): accuracy [\d.]+ on 2 boards", output) == ["1", "2"]


def test_the_flower_client_exchanges_all_weights() -> None:
    code = (
        "import torch, flower_client as c; a, b = c.new_model(), c.new_model()\n"
        "torch.nn.init.zeros_(b[0].weight); c.set_weights(b, c.weights_of(a))\n"
        "assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters())); print('same')"
    )
    assert run("-c", code, PYTHONPATH=str(EXAMPLES / "federated")) == "same\n"
