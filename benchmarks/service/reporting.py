"""Reporting of all loads: progress on standard error, the result as JSON."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from penstock.home import Home, write_json

_BEGAN = time.monotonic()
_LOAD_BEFORE = os.getloadavg()[0]


def progress(what: str) -> None:
    print(f"{time.monotonic() - _BEGAN:7.1f} s  {what}", file=sys.stderr, flush=True)


def spread(values: Sequence[float], digits: int = 3) -> dict[str, float]:
    """Least, quartiles and greatest of the values, of which there is at least one."""
    ordered = sorted(values)
    low, middle, high = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else ordered * 3
    known = {"least": ordered[0], "quarter": low, "median": middle, "three quarters": high, "most": ordered[-1]}
    return {name: round(value, digits) for name, value in known.items()}


def missed(result: Mapping[str, Any], *, least: Mapping[str, float], most: Mapping[str, float]) -> list[str]:
    """Sentences on each target that the result's figures miss."""
    below = [f"{name} is {result[name]:g}, not {aim:g} or more" for name, aim in least.items() if result[name] < aim]
    above = [f"{name} is {result[name]:g}, not {aim:g} or less" for name, aim in most.items() if result[name] > aim]
    return below + above


def report_result(home: Home, load: str, result: Mapping[str, Any]) -> int:
    """Print the result, write it to HOME/LOAD.json, and return the exit code.

    The exit code is 1 where a claim is `broken`, 2 where only a target was `missed`.
    """
    whole = {
        "load": load,
        "arguments": sys.argv[1:],
        "ended_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load_average": {"before": round(_LOAD_BEFORE, 2), "after": round(os.getloadavg()[0], 2)},
        **result,
    }
    write_json(home.root / f"{load}.json", whole)
    print(json.dumps(whole, indent=2))
    return 1 if result.get("broken") else 2 if result.get("missed") else 0
