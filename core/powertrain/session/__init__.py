"""The profiling session: a strategy at work on a problem, one mode at a time."""

from powertrain.session.profiling_session import Ask, Done, ProfilingSession
from powertrain.session.storage import SessionStateError

__all__ = ["Ask", "Done", "ProfilingSession", "SessionStateError"]
