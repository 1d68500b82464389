"""Telemetry: one port for power readings, its sources (sysfs, jtop, tegrastats), and statistics over windows."""

from powertrain_agent.telemetry.choose import open_source
from powertrain_agent.telemetry.offset_source import OffsetSource
from powertrain_agent.telemetry.port import PowerSource, Reading, SourceError, SourceUnavailableError
from powertrain_agent.telemetry.sampler import Sampler
from powertrain_agent.telemetry.sysfs_source import SysfsSource
from powertrain_agent.telemetry.window import RollingMean, WindowStatistics, summarize

__all__ = [
    "OffsetSource",
    "PowerSource",
    "Reading",
    "RollingMean",
    "Sampler",
    "SourceError",
    "SourceUnavailableError",
    "SysfsSource",
    "WindowStatistics",
    "open_source",
    "summarize",
]
