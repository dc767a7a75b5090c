"""`penstock lab run|resume`: run experiments from a file, with progress, and resume interrupted ones."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.lab.app import app
from penstock.cli.lab.reports import end_as, show
from penstock.cli.output import plain_console
from penstock.errors import InvalidInput, PenstockError
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.engine.class_archives import BuildStatus
    from penstock.lab.experiment import Arm, Experiment, MeasurementPlan
    from penstock.lab.progress import ProgressListener, TerminalProgress
    from penstock.lab.records import Run


def run_arms(arms: Sequence[Arm], plan: MeasurementPlan) -> list[Run]:
    """Run `runner.measure` with progress on the terminal."""
    from penstock.lab.experiment import Experiment

    (runs,) = measure_all([Experiment(arms, plan)])
    return runs


def measure_all(experiments: Sequence[Experiment]) -> list[list[Run]]:
    """Run `runner.measure_all` with progress on the terminal."""
    from penstock.lab import runner
    from penstock.lab.environment import Environment

    home = Home.default()
    with _progress(home) as listener:
        return runner.measure_all(functools.partial(Environment.open, home), experiments, listener)


def resume(name: str) -> list[list[Run]]:
    """Run `runner.resume` with progress on the terminal."""
    from penstock.lab import runner
    from penstock.lab.environment import Environment

    home = Home.default()
    with _progress(home) as listener:
        return runner.resume(home, functools.partial(Environment.open, home), name, listener)


@contextmanager
def _progress(home: Home) -> Iterator[TerminalProgress]:
    from penstock.lab import runner
    from penstock.lab.progress import TerminalProgress
    from penstock.lab.runner import unwinding_on_signals

    before = set(runner.interrupted_runs(home))
    try:
        with unwinding_on_signals(), TerminalProgress(plain_console()).showing() as listener:
            _warn_of_slow_starts(await_archives(home, listener), listener)
            yield listener
    except (PenstockError, KeyboardInterrupt, SystemExit):
        if left := [run for run in runner.interrupted_runs(home) if run not in before]:
            print(f"\nCompleted measurements are kept. To continue: penstock lab resume {left[-1]}", file=sys.stderr)
        raise


def await_archives(home: Home, listener: ProgressListener) -> BuildStatus | None:
    """Wait until class-data archives are no longer being built: a measurement beside the build would be wrong.

    Returns the status afterwards; None without Java, where the next step fails with a better error.
    """
    from penstock.engine.class_archives import ClassArchives

    with suppress(PenstockError):
        archives = ClassArchives(home)
        if archives.status().running:
            listener.note("Waiting for the build of class-data archives, since a measurement beside it would be wrong")
        return archives.wait(lambda status: listener.now(f"class-data archives: {status.sentence()}"))
    return None


def _warn_of_slow_starts(status: BuildStatus | None, listener: ProgressListener) -> None:
    """Warn that class-data archives are missing, as after an update of the jars, since that slows every JVM's start."""
    if status and not status.built:
        listener.note("Class-data archives are missing, so each JVM starts slower: penstock up creates them")


def plan(repetitions: int, warmup: int, drop_caches: bool) -> MeasurementPlan:
    from penstock.lab import experiment
    from penstock.lab.experiment import MeasurementPlan

    return MeasurementPlan(repetitions, warmup, experiment.DROP if drop_caches else experiment.KEEP)


_SEE_EXAMPLE = "penstock lab run --example shows a file with every key"
_SHOWN_VALUES = 12


@app.command("run")
def run_command(
    file: Annotated[Optional[Path], typer.Argument(help="Lab file (YAML).", show_default=False)] = None,  # noqa: UP045
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan of measurements and their order; measure nothing.")
    ] = False,
    example: Annotated[bool, typer.Option("--example", help="Print a commented example file.")] = False,
) -> None:
    """Run the experiments of a lab file: workloads, their arms, repetitions and cache policy.

    Exit code 9 if a result was wrong, 1 if a repetition failed.
    """
    if example:
        sys.stdout.write(resources.files("penstock.lab").joinpath("example.yaml").read_text(encoding="utf-8"))
        return
    if file is None:
        raise InvalidInput("No file was given", fix=f"penstock lab run FILE.yaml; {_SEE_EXAMPLE}")
    experiments = _read(file)
    if dry_run:
        _print_plan(plain_console(), experiments)
        return
    _show_and_end(measure_all(experiments))


@app.command("resume")
def resume_command(
    run: Annotated[
        str, typer.Argument(help="Run id or a unique part of it; by default the newest interrupted run.")
    ] = "last",
) -> None:
    """Resume an interrupted run and the other runs of its command. Completed repetitions are not repeated."""
    _show_and_end(resume(run))


def _read(file: Path) -> list[Experiment]:
    from penstock import formats
    from penstock.clusters import choice
    from penstock.lab import labfile
    from penstock.lab.workloads.registry import FileWorkloads

    capacity = choice.capacity(Home.default())
    return labfile.parse_experiments(
        formats.read(file, fix=_SEE_EXAMPLE), FileWorkloads(), lambda suite: suite.default_size(capacity)
    )


def _print_plan(console: Console, experiments: Sequence[Experiment]) -> None:
    from penstock import units

    total = 0
    for number, experiment in enumerate(experiments, start=1):
        plan = experiment.plan
        total += len(experiment.order())
        warmup = f" after {plan.warmup} for warm-up" if plan.warmup else ""
        what = (
            f"  {experiment.arms[0].suite.title}: {units.plural(len(experiment.arms), 'arm')}, "
            f"{units.plural(plan.repetitions, 'repetition')}{warmup}, caches: {plan.caches}"
        )
        console.print(Text.assemble((str(number), "bold"), what))
        facts = [_facts(arm) for arm in experiment.arms]
        for name, value in facts[0].items():
            if all(other[name] == value for other in facts):
                console.print(f"   {name}: {value}")
        if len(facts) > 1:
            console.print(_arms_table(experiment.arms, facts))
            console.print(f"   order: {_rounds(experiment)}", soft_wrap=True)
        console.print()
    console.print(f"{units.plural(total, 'repetition')} in total. Nothing was started.")


def _arms_table(arms: Sequence[Arm], facts: Sequence[Mapping[str, str]]) -> Table:
    """The settings that differ between arms."""
    differing = [name for name in facts[0] if len({other[name] for other in facts}) > 1]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("   #", justify="right", no_wrap=True)
    for column in ("arm", *differing):
        table.add_column(column)
    for number, (arm, own) in enumerate(zip(arms, facts, strict=True), start=1):
        table.add_row(str(number), arm.name, *(own[name] for name in differing))
    return table


def _rounds(experiment: Experiment) -> str:
    """The order of the arms, by number: `round 1: 1 2; round 2: 2 1`."""
    numbers = {arm.name: str(number) for number, arm in enumerate(experiment.arms, start=1)}
    rounds: dict[int, list[str]] = {}
    for repetition, arm in experiment.order():
        rounds.setdefault(repetition, []).append(numbers[arm.name])
    return "; ".join(
        f"{f'round {repetition}' if repetition > 0 else 'warm-up'}: {' '.join(turns)}"
        for repetition, turns in rounds.items()
    )


def _facts(arm: Arm) -> dict[str, str]:
    """The conditions of an arm, by their names in a lab file."""
    from penstock.lab.launchers import PENSTOCK
    from penstock.lab.report.elements.checks import cluster_text

    return {
        "launcher": arm.launcher,
        "lake": arm.lake or "the default",
        "gateways": str(arm.gateways or "all"),
        "profile": (arm.profile or arm.suite.profile) if arm.launcher == PENSTOCK else "none",
        "cluster": cluster_text(asdict(arm.size)),
        "settings": ", ".join(f"{name}={value}" for name, value in arm.settings.items()) or "none",
        **{name: _shown_option(value) for name, value in arm.suite.options().items()},
    }


def _shown_option(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) if len(value) <= _SHOWN_VALUES else f"{len(value)} values"
    return str(value)


def _are_stores(experiments: Sequence[Sequence[Run]]) -> bool:
    """True if several workloads were measured on the same two or more lakes."""
    lakes = [[(run.description.arm, run.description.lake.get("name")) for run in runs] for runs in experiments]
    return len(lakes) > 1 and all(own == lakes[0] for own in lakes) and len({lake for _, lake in lakes[0]}) > 1


def _show_and_end(experiments: Sequence[Sequence[Run]]) -> None:
    console = plain_console()
    for runs in experiments:
        show(console, runs)
    if _are_stores(experiments):
        last = experiments[-1][-1].description.id
        hint = f"Compare all workloads against the price of raw capacity: penstock lab stores {last} -o stores.html"
        console.print(hint, soft_wrap=True)
    end_as([run for runs in experiments for run in runs])
