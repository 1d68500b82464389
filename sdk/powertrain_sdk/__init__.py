"""What runs inside the training container: no dependencies, Python 3.6 and newer."""

from powertrain_sdk.loaders import prefetch, track
from powertrain_sdk.settings import batch_size, learning_rate
from powertrain_sdk.steps import epoch, reached, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence, Union

__all__ = ["batch_size", "diagnose", "epoch", "learning_rate", "prefetch", "reached", "step", "track"]
__version__ = "0.1.0"


def diagnose(command: "Union[str, Sequence[str]]") -> "Optional[str]":
    """Return why a command's steps can't be counted without a change of code, None when nothing speaks against it."""
    # Asked by tools, never by a training: every Python of a container starts through this file.
    from powertrain_sdk import commandline

    return commandline.diagnose(command)
