"""The command line of what is measured over many made-up applications."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.home import Home


def measured(about: str | None, run: Callable[[Home, int], Any]) -> None:
    """Run it in the home and with as many as asked for; print what came of it as one JSON object."""
    options = argparse.ArgumentParser(description=about)
    options.add_argument("home", type=Path)
    options.add_argument("--applications", type=int, default=10_000)
    given = options.parse_args()
    print(json.dumps(run(Home(given.home.absolute()), given.applications), indent=2))
