"""Measuring with progress on the terminal."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.records import Run
    from penstock.lab.runner import Arm, Plan


def run_arms(arms: Sequence[Arm], plan: Plan) -> list[Run]:
    """As `runner.measure` does it."""
    from penstock.lab import runner
    from penstock.lab.bench import Bench
    from penstock.lab.progress import Terminal

    home = Home.default()
    with Terminal(Console()).showing() as listener:
        return runner.measure(functools.partial(Bench.open, home), arms, plan, listener)
