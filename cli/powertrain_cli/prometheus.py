"""Asks a Prometheus server; whatever goes wrong becomes one line."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime
from typing import Any

from powertrain_cli.errors import CliError, Exit

TIMEOUT_S = 20.0
Series = dict[str, Any]


def instant(url: str, expression: str) -> list[Series]:
    """Return the series of an expression now, each with its `metric` and `value`."""
    return _ask(url, "query", query=expression)


def over_time(url: str, expression: str, began: datetime, ended: datetime, step_s: int) -> list[Series]:
    """Return the series of an expression over a stretch of time, each with its `metric` and `values`."""
    between = {"start": str(began.timestamp()), "end": str(ended.timestamp()), "step": str(step_s)}
    return _ask(url, "query_range", query=expression, **between)


def _ask(url: str, path: str, **query: str) -> list[Series]:
    address = f"{url.rstrip('/')}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    if not address.startswith(("http://", "https://")):
        raise CliError(f"--prometheus {url}: write an address such as http://prometheus:9090")
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as response:
            answer = json.load(response)
        series: list[Series] = answer["data"]["result"]
    except urllib.error.HTTPError as error:
        words = " ".join(error.read(500).decode(errors="replace").split())
        raise CliError(f"Prometheus at {url} refuses the query: {words or error}", Exit.ENVIRONMENT) from None
    except (ValueError, OSError, KeyError, TypeError) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else cause
        raise CliError(f"no answer from Prometheus at {url}: {reason}", Exit.ENVIRONMENT) from None
    return series
