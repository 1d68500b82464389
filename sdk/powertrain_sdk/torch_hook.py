"""Counts optimizer steps of an unmodified PyTorch training; auto/sitecustomize.py calls it when torch is imported.

PyTorch 2 offers hooks for all optimizers, but in 2.0 to 2.2 the first `torch.compile` takes them off again (it removes
the wrapper that calls them, torch/_dynamo/eval_frame.py; 2.4 no longer does). So they are used from 2.4 on; before,
each optimizer class's own `step` is wrapped when an instance is made, beneath PyTorch's wrapper.
"""

import functools
import re
import time
import weakref

from powertrain_sdk.gpu_check import GpuCheck
from powertrain_sdk.steps import hook_device, hook_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Tuple

HOOKS_LAST_SINCE = (2, 4)
MARK = "_powertrain_counts"
# Another optimizer takes over when the counted one has rested this long while it made this many steps: a training in
# phases. (In a GAN both step all the time, a few steps apart.)
TAKEOVER_STEPS = 50
TAKEOVER_S = 10.0


class StepCounter:
    """Counts the steps of one optimizer: the first that steps, until it is gone or has long been resting."""

    def __init__(self, count: "Callable[[], None]", clock: "Callable[[], float]" = time.monotonic) -> None:
        """Call `count` for each step that counts."""
        self._count = count
        self._clock = clock
        self._counted_optimizer: "Optional[weakref.ref[Any]]" = None
        self._armed = False
        self._others_steps = 0
        self._others_since_s = 0.0
        self._gpu = GpuCheck(hook_device)

    def before(self, optimizer: "Any", *_: "Any") -> None:
        """Note that an optimizer begins a step."""
        counted_optimizer = self._counted_optimizer() if self._counted_optimizer is not None else None
        if optimizer is not counted_optimizer and (counted_optimizer is None or self._takes_over()):
            self._counted_optimizer = weakref.ref(optimizer)
            counted_optimizer = optimizer
        if optimizer is counted_optimizer:
            self._gpu.look(optimizer)
            self._armed = True
            self._others_steps = 0

    def after(self, optimizer: "Any", *_: "Any") -> None:
        """Count the step; a step inside another (a subclass that calls its parent's) ends twice and counts once."""
        if self._armed and self._counted_optimizer is not None and self._counted_optimizer() is optimizer:
            self._armed = False
            self._count()

    def _takes_over(self) -> bool:
        now_s = self._clock()
        if self._others_steps == 0:
            self._others_since_s = now_s
        self._others_steps += 1
        return self._others_steps > TAKEOVER_STEPS and now_s - self._others_since_s > TAKEOVER_S


def attach(module: "Any") -> None:
    """Make the optimizers of an imported `torch.optim.optimizer` count."""
    counter = StepCounter(hook_step)
    register_before = getattr(module, "register_optimizer_step_pre_hook", None)
    register_after = getattr(module, "register_optimizer_step_post_hook", None)
    if register_before is None or register_after is None or _version(module.torch) < HOOKS_LAST_SINCE:
        _wrap_classes(module, counter)
        return
    is_compiling = _compile_check(module)

    def before(optimizer: "Any", _args: "Any", _kwargs: "Any") -> None:
        if not is_compiling():
            counter.before(optimizer)

    def after(optimizer: "Any", _args: "Any", _kwargs: "Any") -> None:
        if not is_compiling():
            counter.after(optimizer)

    register_before(before)
    register_after(after)


def _version(torch: "Any") -> "Tuple[int, int]":
    match = re.match(r"(\d+)\.(\d+)", str(getattr(torch, "__version__", "")))
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def _compile_check(module: "Any") -> "Callable[[], bool]":
    """Return PyTorch's own test for "this code is being compiled", where counting has no place."""
    compiler = getattr(module.torch, "compiler", None)
    check = getattr(compiler, "is_compiling", None) or getattr(module, "is_compiling", None)
    return check or _never


def _never() -> bool:
    return False


def _wrap_classes(module: "Any", counter: StepCounter) -> None:
    optimizer_class = module.Optimizer
    original = optimizer_class.__init__
    is_compiling = _compile_check(module)

    @functools.wraps(original)
    def initialise(self: "Any", *args: "Any", **kwargs: "Any") -> None:
        # Before the original, which puts PyTorch's own wrapper around step: that one may be taken off later.
        cls = type(self)
        if not getattr(cls.step, MARK, False):
            cls.step = _counting(cls.step, counter, is_compiling)
        original(self, *args, **kwargs)

    optimizer_class.__init__ = initialise


def _counting(original: "Any", counter: StepCounter, is_compiling: "Callable[[], bool]") -> "Any":
    @functools.wraps(original)
    def step(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        if is_compiling():
            return original(self, *args, **kwargs)
        counter.before(self)
        result = original(self, *args, **kwargs)
        counter.after(self)
        return result

    setattr(step, MARK, True)
    return step
