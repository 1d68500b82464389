"""PowerTrain's science and API types: no Kubernetes calls, no sysfs, no clock."""

from powertrain.modes import ModeError, PowerMode
from powertrain.space import ModeSpace

__all__ = ["ModeError", "ModeSpace", "PowerMode", "__version__"]

__version__ = "0.1.0"
