"""What a training says about itself: steps, epochs, an accuracy reached. Nothing here raises into it.

Steps come from two sides: the training's own calls, and the automatic hook. The training knows better: its first call
ends the hook's counting, and what the hook had counted by then is not counted again.
"""

import os
import time

from powertrain_sdk import protocol, settings
from powertrain_sdk.sender import Sender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

ENV_TERMINATION_LOG = "POWERTRAIN_TERMINATION_LOG"
TERMINATION_LOG = "/dev/termination-log"


class Reporter:
    """The state behind the functions of this module, one per process."""

    def __init__(self, sender: Sender) -> None:
        """Start with nothing counted."""
        self.sender = sender
        self._by_hook = 0
        self._steps_to_skip = 0
        self._explicit = False
        self._has_reached = False

    def step(self, n: int) -> None:
        """Count the training's own steps."""
        if not self._explicit:
            self._explicit = True
            # A forked child starts from nothing, whatever its parent's hook had counted.
            self._steps_to_skip = min(self._by_hook, self.sender.total)
        if self._steps_to_skip:
            doubled = min(self._steps_to_skip, int(n))
            self._steps_to_skip -= doubled
            n -= doubled
        self.sender.step(n)

    def hook_step(self) -> None:
        """Count a step that the automatic hook saw, unless the training counts for itself."""
        if not self._explicit:
            self._by_hook += 1
            self.sender.step()

    def reached(self, accuracy: float) -> bool:
        """Report the first accuracy that is not below the target, or that there was none within the samples allowed.

        Tell whether there is a reason to stop.
        """
        if self._has_reached:
            return True
        accuracy = float(accuracy)
        target = settings.target_accuracy()
        is_number = abs(accuracy) < float("inf")
        if not is_number or (target is not None and accuracy < target):
            return self._given_up(accuracy if is_number else None)
        self._has_reached = True
        self.sender.reached(accuracy)
        self._write(self._summary(accuracy))
        return True

    def _given_up(self, accuracy: "Optional[float]") -> bool:
        """Write that the samples allowed are used up without the target, if they are."""
        most, batch_size = settings.max_samples(), settings.known_batch_size()
        if most is None or batch_size is None or self.sender.total * batch_size < most:
            return False
        self._has_reached = True
        summary = self._summary(accuracy)
        summary["capReached"] = True
        self._write(summary)
        return True

    def _write(self, summary: "Dict[str, Any]") -> None:
        if protocol.local_rank(os.environ) == 0:
            import json

            write_termination_message(json.dumps(summary, sort_keys=True))

    def _summary(self, accuracy: "Optional[float]") -> "Dict[str, Any]":
        steps, started_s = self.sender.total, self.sender.first_step_s
        batch_size = settings.known_batch_size()
        return {
            "accuracy": accuracy,
            "batchSize": batch_size,
            "epochs": self.sender.epochs,
            "learningRate": settings.chosen_learning_rate(),
            "samples": None if batch_size is None else steps * batch_size,
            "seconds": None if started_s is None else round(time.monotonic() - started_s, 3),
            "steps": steps,
        }


def write_termination_message(text: str) -> bool:
    """Write what Kubernetes will show as the container's last word; tell whether there was a place for it."""
    own = os.environ.get(ENV_TERMINATION_LOG)
    # Kubernetes makes the default file; outside of it, nobody should find a new file in /dev.
    flags = os.O_WRONLY | os.O_TRUNC | (os.O_CREAT if own else 0)
    try:
        descriptor = os.open(own or TERMINATION_LOG, flags, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError:
        return False
    return True


_reporter = Reporter(Sender())


def step(n: int = 1) -> None:
    """Tell that n steps (minibatches) have ended. Costs about a microsecond; a no-op without PowerTrain."""
    try:
        _reporter.step(n)
    except Exception:
        return


def hook_step() -> None:
    """Tell that an optimizer has stepped; only the automatic hook calls this."""
    try:
        _reporter.hook_step()
    except Exception:
        return


def hook_device(on_gpu: bool) -> None:
    """Report whether the training computes on the GPU; only the automatic hook calls this."""
    try:
        _reporter.sender.device(on_gpu)
    except Exception:
        return


def epoch() -> None:
    """Tell that an epoch has ended."""
    try:
        _reporter.sender.epoch()
    except Exception:
        return


def reached(accuracy: float) -> bool:
    """Tell the accuracy on held-out data; True once the target is reached, whose first time is what counts.

    With POWERTRAIN_TARGET_ACCURACY call it after every evaluation; without, call it when your own target is reached.
    The steps and samples it took become the container's termination message. True also when POWERTRAIN_MAX_SAMPLES are
    used up: a study has seen enough.
    """
    try:
        return _reporter.reached(accuracy)
    except Exception:
        return False
