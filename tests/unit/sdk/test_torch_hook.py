"""Which optimizer's steps count, and that an older PyTorch's optimizers are reached at all."""

import gc

import pytest

from powertrain_sdk.torch_hook import StepCounter

# What PyTorch before 2 has: no global hooks, and a wrapper that the base class puts around each subclass's step.
OLD_TORCH = '''
import functools
import torch

class Optimizer(object):
    def __init__(self, params):
        step = type(self).step
        if not getattr(step, "hooked", False):
            @functools.wraps(step)
            def profiled(*args, **kwargs):
                return step(*args, **kwargs)
            type(self).step = profiled
            type(self).step.hooked = True

class SGD(Optimizer):
    def step(self, closure=None):
        """Update."""
        return "stepped"
'''


class Optimizer:
    """Something that can be referred to weakly."""


class Counting:
    def __init__(self, clock) -> None:
        self.steps = 0
        self._clock = clock
        self._counter = StepCounter(self._count, clock)

    def _count(self) -> None:
        self.steps += 1

    def step(self, optimizer: Optimizer, *nested: Optimizer, fails: bool = False, takes_s: float = 0.1) -> None:
        self._counter.before(optimizer)
        for inner in nested:
            self.step(inner)
        self._clock.sleep(takes_s)
        if not fails:
            self._counter.after(optimizer)


@pytest.fixture
def counting(clock) -> Counting:
    return Counting(clock)


def test_of_two_optimizers_the_first_that_steps_counts(counting) -> None:
    generator, critic = Optimizer(), Optimizer()
    for _ in range(100):
        for _ in range(5):
            counting.step(critic)
        counting.step(generator)
    assert counting.steps == 500


def test_a_step_inside_the_same_optimizer_s_step_counts_once(counting) -> None:
    optimizer = Optimizer()
    for _ in range(3):
        counting.step(optimizer, optimizer)
    assert counting.steps == 3


def test_a_step_that_raised_does_not_count_and_spoils_nothing(counting) -> None:
    optimizer = Optimizer()
    for fails in (False, True, False):
        counting.step(optimizer, fails=fails)
    assert counting.steps == 2


def test_when_the_counted_optimizer_is_gone_the_next_one_counts(counting) -> None:
    first, second = Optimizer(), Optimizer()
    counting.step(first)
    counting.step(second)
    del first
    gc.collect()
    counting.step(second)
    assert counting.steps == 2


def test_a_second_phase_s_optimizer_takes_over_from_one_that_rests(counting) -> None:
    first, second = Optimizer(), Optimizer()
    counting.step(first)
    for _ in range(1000):
        counting.step(second)
    assert counting.steps > 850


def test_a_rest_of_few_steps_hands_nothing_over(counting) -> None:
    first, second = Optimizer(), Optimizer()
    counting.step(first)
    for _ in range(20):
        counting.step(second, takes_s=60)
    counting.step(first)
    assert counting.steps == 2


@pytest.fixture
def old_torch(tmp_path) -> str:
    package = tmp_path / "old" / "torch"
    (package / "optim").mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '1.10.2+cu102'\nfrom torch import optim\n")
    (package / "optim" / "__init__.py").write_text("from torch.optim.optimizer import *\n")
    (package / "optim" / "optimizer.py").write_text(OLD_TORCH)
    return str(package.parent)


def test_an_older_pytorch_s_optimizers_count_too(session, old_torch) -> None:
    code = f"""
import sys; sys.path.insert(0, {old_torch!r})
import torch
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
mine, other = Mine([]), torch.optim.SGD([])
for _ in range(7):
    print(mine.step(), other.step())
assert (Mine.step.__name__, torch.optim.SGD.step.__doc__) == ("step", "Update.")
"""
    result = session.run("-c", code, auto=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == ["stepped"] * 14
    assert session.datagrams()[-1].total == 7


def test_a_wrapper_taken_off_by_torch_compile_does_not_end_the_counting(session, old_torch) -> None:
    """PyTorch 2.0 to 2.2 remove their own wrapper, and with it the hooks, when something is compiled."""
    code = f"""
import sys; sys.path.insert(0, {old_torch!r})
import torch
optimizer = torch.optim.SGD([])
optimizer.step()
torch.optim.SGD.step = torch.optim.SGD.step.__wrapped__
optimizer.step()
"""
    assert session.run("-c", code, auto=True).returncode == 0
    assert session.datagrams()[-1].total == 2


def test_a_pytorch_that_can_t_be_hooked_trains_on(session, tmp_path) -> None:
    package = tmp_path / "odd" / "torch" / "optim"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("from torch import optim\n")
    (package / "__init__.py").write_text("from torch.optim import optimizer\n")
    (package / "optimizer.py").write_text("")
    result = session.run("-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'odd')!r}); import torch", auto=True)
    assert result.returncode == 0
    assert "the steps of this PyTorch are not counted" in result.stderr
