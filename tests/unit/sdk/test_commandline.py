"""Command lines whose steps can't be counted automatically are told in words, all others are left in peace."""

import pytest

import powertrain_sdk


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["python", "-I", "train.py"], "-I makes Python ignore PYTHONPATH"),
        (["python3", "-uE", "train.py"], "-E makes Python ignore PYTHONPATH"),
        (["/usr/bin/python3.10", "-S", "-m", "train"], "-S makes Python skip sitecustomize"),
        (["python", "-W", "ignore", "-X", "dev", "-Es", "train.py"], "-E"),
        (["nice", "-n", "5", "python", "-I", "train.py"], "-I"),
        (["sh", "-c", "cd /src && exec python -I train.py"], "-I"),
        (["/bin/bash", "-euxc", "pip install x; python -E train.py --epochs 3"], "-E"),
        ("python prepare.py && python -I train.py", "-I"),
        ("echo start\npython -S train.py", "-S"),
        ("PYTHONPATH=/src python train.py", "replaces PYTHONPATH"),
        (["env", "PYTHONPATH=/src", "python", "train.py"], "replaces PYTHONPATH"),
        (["env", "-i", "python", "train.py"], "env -i clears"),
        (["env", "-u", "PYTHONPATH", "python", "train.py"], "removes PYTHONPATH"),
        (["sudo", "-u", "me", "python", "train.py"], "sudo clears"),
        (["python2.7", "train.py"], "python2.7 is too old"),
        (["python3.5", "train.py"], "python3.5 is too old"),
    ],
    ids=str,
)
def test_what_keeps_steps_from_being_counted_is_said(command, reason) -> None:
    assert reason in str(powertrain_sdk.diagnose(command))


@pytest.mark.parametrize(
    "command",
    [
        [],
        "",
        ["python", "train.py", "-E", "-I", "-S"],
        ["python3.6", "-u", "-B", "-s", "-m", "train", "-I"],
        ["python", "-c", "print('-I')", "-I"],
        ["python", "-W", "Ignore", "train.py"],
        ["python", "-XIS", "train.py"],
        ["torchrun", "--nproc-per-node", "1", "train.py"],
        ["sh", "-c", "PYTHONPATH=/src:$PYTHONPATH python train.py | tee -I log"],
        ["bash", "train.sh", "-c", "python -I"],
        ["./train", "-I"],
        ["env", "LR=1", "python", "train.py"],
        "python 'unbalanced",
    ],
    ids=str,
)
def test_nothing_is_said_against_other_commands(command) -> None:
    assert powertrain_sdk.diagnose(command) is None


def test_the_reason_names_the_way_out() -> None:
    assert "powertrain_sdk.step()" in str(powertrain_sdk.diagnose(["python", "-I", "train.py"]))
