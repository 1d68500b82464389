"""Dockerfiles and the builder without Docker make the same images, from the same lists."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import yaml

from powertrain_agent.simulate import SimulatedBoard
from powertrain_devcluster.builds import images

ROOT = Path(__file__).resolve().parents[3]
NAMES = sorted(path.parent.name for path in (ROOT / "images").glob("*/Dockerfile"))


def instructions(name: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile's last stage, and all of its RUNs."""
    text = (ROOT / "images" / name / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_there_is_a_dockerfile_for_every_image_with_python() -> None:
    assert sorted(path.parent.name for path in (ROOT / "images").glob("*/install.sh")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_dockerfile_says_what_the_builder_says(name: str) -> None:
    all_instructions = instructions(name)
    config = images.config_of(images.recipe(name))
    labels = dict(shlex.split(rest)[0].split("=", 1) for word, rest in all_instructions if word == "LABEL")
    assert labels == config["Labels"]
    assert [shlex.split(rest)[0] for word, rest in all_instructions if word == "ENV"] == config["Env"]
    assert [rest for word, rest in all_instructions if word == "USER"] == [config["User"]]
    assert [re.findall(r'"([^"]*)"', rest) for word, rest in all_instructions if word == "ENTRYPOINT"] == [
        config["Entrypoint"]
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_dockerfile_uses_the_lists_and_the_script_of_its_folder(name: str) -> None:
    commands = " ".join(rest for word, rest in instructions(name) if word == "RUN")
    assert set(re.findall(r"images/([a-z-]+)/([a-z.]+)", commands)) == {
        (name, "files.txt"),
        (name, "install.sh"),
        (name, "packages.txt"),
    }
    assert "grep -v '^#'" in commands
    listed = (ROOT / "images" / name / "files.txt").read_text(encoding="utf-8").splitlines()
    # Lines are a comment or two words, or the shell's loop and the builder would read them differently.
    assert all(line.startswith("#") or len(line.split()) == 2 for line in listed)
    entrypoint = images.recipe(name).about()["entrypoint"]
    assert entrypoint in [target for _, target in images.recipe(name).files()]


@pytest.mark.parametrize("name", NAMES)
def test_what_goes_into_an_image_is_there(name: str) -> None:
    assert [str(source) for source, _ in images.recipe(name).files() if not source.exists()] == []
    assert images.recipe(name).packages()


def test_a_build_copies_nothing_that_git_ignores() -> None:
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = {name if "/" in name else f"**/{name}" for name in ignored} | {".git"}
    assert {line for line in left_out if not line.startswith("#")} == patterns


def test_only_the_variant_for_it_has_torch() -> None:
    lists = {
        path.parent.name: path.read_text(encoding="utf-8") for path in (ROOT / "images").glob("*/requirements.txt")
    }
    assert [name for name, text in lists.items() if "torch" in text.split()] == ["agent-nn"]


def test_the_variant_has_the_same_repository_and_its_own_tag() -> None:
    assert images.recipe("agent").reference == "powertrain-agent:dev"
    assert images.recipe("agent-nn").reference == "powertrain-agent:dev-nn"


def references(path: Path) -> set[str]:
    """Every image that a manifest names, also within a text of it."""
    return set(re.findall(r"image: (\S+)", path.read_text(encoding="utf-8")))


def test_examples_name_the_image_for_them_or_somebody_else_s() -> None:
    manifests = [*ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/*/job.yaml")]
    ours = {name for path in manifests for name in references(path) if not name.startswith("example.org/")}
    version = yaml.safe_load((ROOT / "charts/powertrain/Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    names = ("training-example", "training-torch")
    assert ours == {images.recipe(name).reference.replace(f":{images.TAG}", f":{version}") for name in names}


@pytest.mark.parametrize(
    "command",
    [["-m", "powertrain_agent.simtrain", "mobilenet-v3", "--steps", "3"], [str(ROOT / "examples/step-loop/kmeans.py")]],
    ids=["simulated", "step-loop"],
)
def test_the_files_of_the_training_example_are_enough_to_train(command: list[str], tmp_path: Path) -> None:
    image = images.recipe("training-example")
    for source, target in image.files():
        place = tmp_path / "root" / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, place)
    SimulatedBoard.create(tmp_path / "board", "orin-agx")
    homes = ("opt/powertrain/lib", "usr/lib/python3/dist-packages")
    # Without `site` the checkout, which is installed here, can't help out.
    paths = [*(str(tmp_path / "root" / home) for home in homes), str(Path(numpy.__file__).parents[1])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "POWERTRAIN_SIM_ROOT": str(tmp_path / "board")}
    env |= {"POWERTRAIN_TIME_SCALE": "100", "POWERTRAIN_EPOCHS": "1", "POWERTRAIN_BATCH_SIZE": "16"}
    result = subprocess.run([sys.executable, "-S", *command], env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(("mobilenet-v3: 3 steps", "epoch 1: means"))
