"""`penstock lab run|resume`: experiments from a file, and going on with what was interrupted."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table

from penstock.cli.lab import measuring
from penstock.cli.lab.app import app
from penstock.cli.lab.show import end_as, show
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.experiment import Arm, Experiment
    from penstock.lab.records import Run

_SEE_EXAMPLE = "penstock lab run --example shows a file with every key"
_SHOWN_VALUES = 12


@app.command("run")
def run_command(
    file: Annotated[Optional[Path], typer.Argument(help="What to measure, in YAML.", show_default=False)] = None,  # noqa: UP045
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured, in which order.")] = False,
    example: Annotated[bool, typer.Option("--example", help="Print a commented file to begin with.")] = False,
) -> None:
    """Measure what a file describes: workloads, what varies between their arms, how often, with which caches.

    Exit code 9 when a result was wrong, 1 when something failed.
    """
    if example:
        sys.stdout.write(resources.files("penstock.lab").joinpath("example.yaml").read_text(encoding="utf-8"))
        return
    if file is None:
        raise InvalidInput("No file was given", fix=f"penstock lab run FILE.yaml; {_SEE_EXAMPLE}")
    experiments = _read(file)
    if dry_run:
        _tell(Console(), experiments)
        return
    _show_and_end(measuring.measure_all(experiments))


@app.command("resume")
def resume_command(
    run: Annotated[
        str, typer.Argument(help="A run: its id or a unique part of it; the newest interrupted one.")
    ] = "last",
) -> None:
    """Go on with an interrupted run, and with all that was begun with it. What is done is not done again."""
    _show_and_end(measuring.resume(run))


def _read(file: Path) -> list[Experiment]:
    from penstock import formats
    from penstock.cli.lab.workloads import CommandWorkloads
    from penstock.clusters import choice
    from penstock.lab import labfile

    capacity = choice.capacity(Home.default())
    return labfile.experiments(
        formats.read(file, fix=_SEE_EXAMPLE), CommandWorkloads(), lambda suite: suite.default_size(capacity)
    )


def _tell(console: Console, experiments: Sequence[Experiment]) -> None:
    from penstock import units

    total = 0
    for number, experiment in enumerate(experiments, start=1):
        plan = experiment.plan
        total += len(experiment.order())
        warmup = f" after {plan.warmup} to warm up" if plan.warmup else ""
        console.print(
            f"[bold]{number}[/bold]  {experiment.arms[0].suite.title}: {units.plural(len(experiment.arms), 'arm')}, "
            f"{units.plural(plan.repetitions, 'repetition')}{warmup}, caches: {plan.caches}",
            highlight=False,
        )
        facts = [_facts(arm) for arm in experiment.arms]
        for name, value in facts[0].items():
            if all(other[name] == value for other in facts):
                console.print(f"   {name}: {value}", highlight=False)
        if len(facts) > 1:
            console.print(_arms_table(experiment.arms, facts))
            console.print(f"   order: {_rounds(experiment)}", highlight=False, soft_wrap=True)
        console.print()
    console.print(f"{units.plural(total, 'repetition')} in all. Nothing was started.", highlight=False)


def _arms_table(arms: Sequence[Arm], facts: Sequence[Mapping[str, str]]) -> Table:
    """What differs between them."""
    differing = [name for name in facts[0] if len({other[name] for other in facts}) > 1]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("   #", justify="right", no_wrap=True)
    for column in ("arm", *differing):
        table.add_column(column)
    for number, (arm, own) in enumerate(zip(arms, facts, strict=True), start=1):
        table.add_row(str(number), arm.name, *(own[name] for name in differing))
    return table


def _rounds(experiment: Experiment) -> str:
    """`round 1: 1 2; round 2: 2 1`, arms by their numbers."""
    numbers = {arm.name: str(number) for number, arm in enumerate(experiment.arms, start=1)}
    rounds: dict[int, list[str]] = {}
    for repetition, arm in experiment.order():
        rounds.setdefault(repetition, []).append(numbers[arm.name])
    return "; ".join(
        f"{f'round {repetition}' if repetition > 0 else 'warm-up'}: {' '.join(turns)}"
        for repetition, turns in rounds.items()
    )


def _facts(arm: Arm) -> dict[str, str]:
    """What an arm is measured with, each fact under its name in a file."""
    from penstock.lab.launcher import PENSTOCK
    from penstock.lab.report.again import cluster

    return {
        "launcher": arm.launcher,
        "lake": arm.lake or "the default one",
        "gateways": str(arm.gateways or "all"),
        "profile": (arm.profile or arm.suite.profile) if arm.launcher == PENSTOCK else "none",
        "cluster": cluster(asdict(arm.size)),
        "settings": ", ".join(f"{name}={value}" for name, value in arm.settings.items()) or "none of its own",
        **{name: _shown(value) for name, value in arm.suite.options().items()},
    }


def _shown(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) if len(value) <= _SHOWN_VALUES else f"{len(value)} values"
    return str(value)


def _are_stores(experiments: Sequence[Sequence[Run]]) -> bool:
    """Whether several workloads were measured on the same lakes, more than one."""
    lakes = [[(run.description.arm, run.description.lake.get("name")) for run in runs] for runs in experiments]
    return len(lakes) > 1 and all(own == lakes[0] for own in lakes) and len({lake for _, lake in lakes[0]}) > 1


def _show_and_end(experiments: Sequence[Sequence[Run]]) -> None:
    console = Console()
    for runs in experiments:
        show(console, runs)
    if _are_stores(experiments):
        last = experiments[-1][-1].description.id
        told = (
            f"All workloads side by side, against the price of raw capacity: penstock lab stores {last} -o stores.html"
        )
        console.print(told, highlight=False, soft_wrap=True)
    end_as([run for runs in experiments for run in runs])
