"""Checks once whether a PyTorch training on a board uses the GPU, warns if it does not, and tells the agent.

A training on the CPU is mostly a mistake in the pod or the image.
"""

import os
import sys

from powertrain_sdk import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

ENV_EXPECTED = "POWERTRAIN_EXPECT_CPU"
WARNING = (
    "powertrain: this training runs on the CPU of the board: the parameters of its optimizer are on 'cpu'. "
    "For the GPU the pod needs `runtimeClassName: nvidia` and an image whose PyTorch is built for this board's release "
    "of Jetson Linux, and the script has to move the model to 'cuda'. "
    "If it should use the CPU, set POWERTRAIN_EXPECT_CPU=1.\n"
)


class GpuCheck:
    """Checks the first optimizer that steps, but not without a session, nor on a simulated board."""

    def __init__(self, report: "Callable[[bool], None]") -> None:
        """Call `report` once with whether the training uses the GPU."""
        self._report = report
        has_session = os.path.isdir(os.environ.get(protocol.ENV_DIR, ""))
        self._due = has_session and "POWERTRAIN_SIM_ROOT" not in os.environ
        self._due = self._due and os.environ.get(ENV_EXPECTED, "") in ("", "0")

    def look(self, optimizer: "Any") -> None:
        """Report where its parameters are, and warn if all are on the CPU; nothing here raises into the training."""
        if not self._due:
            return
        self._due = False
        try:
            kinds = {str(p.device.type) for group in optimizer.param_groups for p in group["params"]}
        except Exception:
            return
        if "cuda" in kinds:
            self._report(True)
        elif kinds == {"cpu"}:
            sys.stderr.write(WARNING)
            sys.stderr.flush()
            self._report(False)
