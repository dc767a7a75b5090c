"""Measuring with progress on the terminal, and what to type where that was interrupted."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rich.console import Console

from penstock.errors import PenstockError
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.experiment import Arm, Experiment, Plan
    from penstock.lab.progress import Terminal
    from penstock.lab.records import Run


def run_arms(arms: Sequence[Arm], plan: Plan) -> list[Run]:
    """As `runner.measure` does it."""
    from penstock.lab.experiment import Experiment

    (runs,) = measure_all([Experiment(arms, plan)])
    return runs


def measure_all(experiments: Sequence[Experiment]) -> list[list[Run]]:
    """As `runner.measure_all` does it."""
    from penstock.lab import runner
    from penstock.lab.bench import Bench

    home = Home.default()
    with _shown(home) as listener:
        return runner.measure_all(functools.partial(Bench.open, home), experiments, listener)


def resume(name: str) -> list[list[Run]]:
    """As `resuming.resume` does it."""
    from penstock.lab import resuming
    from penstock.lab.bench import Bench

    home = Home.default()
    with _shown(home) as listener:
        return resuming.resume(home, functools.partial(Bench.open, home), name, listener)


@contextmanager
def _shown(home: Home) -> Iterator[Terminal]:
    from penstock.lab import resuming
    from penstock.lab.interruptions import ended_in_order
    from penstock.lab.progress import Terminal

    before = set(resuming.interrupted(home))
    try:
        with ended_in_order(), Terminal(Console()).showing() as listener:
            _tell_of_slow_starts(home, listener)
            yield listener
    except (PenstockError, KeyboardInterrupt, SystemExit):
        if left := [run for run in resuming.interrupted(home) if run not in before]:
            print(f"\nWhat was measured so far is kept. Go on with: penstock lab resume {left[-1]}", file=sys.stderr)
        raise


def _tell_of_slow_starts(home: Home, listener: Terminal) -> None:
    """An installation that was renewed has no archives until `penstock up`, and whoever measures it must know."""
    from penstock.runtime import cds

    with suppress(PenstockError):  # no Java: what comes next says so
        if not cds.made(home):
            listener.note("No class-data archives of these jars, each JVM starts slower for it: penstock up makes them")


def plan(repetitions: int, warmup: int, drop_caches: bool) -> Plan:
    from penstock.lab import caches
    from penstock.lab.experiment import Plan

    return Plan(repetitions, warmup, caches.DROP if drop_caches else caches.KEEP)
