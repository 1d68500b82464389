"""What every process of ours in a cluster shares: the way to the API server, log lines, health and metric tables."""

from powertrain_kube.client import KubeApi, Object, Propagation
from powertrain_kube.credentials import credentials
from powertrain_kube.errors import (
    AlreadyExistsError,
    ApiError,
    AwayError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    TooLargeError,
)
from powertrain_kube.log import Log
from powertrain_kube.moments import micro_time

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "AwayError",
    "ConflictError",
    "ForbiddenError",
    "GoneError",
    "InvalidError",
    "KubeApi",
    "Log",
    "NotFoundError",
    "Object",
    "Propagation",
    "TooLargeError",
    "credentials",
    "micro_time",
]
