"""The command line of loads over many generated applications."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.service.reporting import report_result
from penstock.home import Home


def measured(load: str, about: str | None, run: Callable[[Home, int], Mapping[str, Any]]) -> int:
    """Run the load with the home and the number of applications of the command line; returns the exit code."""
    options = argparse.ArgumentParser(description=about)
    options.add_argument("home", type=Path)
    options.add_argument("--applications", type=int, default=10_000)
    given = options.parse_args()
    home = Home(given.home.absolute())
    home.create()
    return report_result(home, load, run(home, given.applications))
