"""Commands of workloads, generated from the options of their suites; `engines` and `startup`, which compare."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Optional, cast

import typer
from typer.core import TyperCommand
from typer.main import get_command

from penstock.cli import options as shared
from penstock.cli.lab import options
from penstock.cli.lab.app import app
from penstock.cli.lab.measure import plan, run_arms
from penstock.cli.lab.reports import end_as, show
from penstock.cli.output import plain_console
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lab.workloads.options import SuiteOption, options_of, suite_of
from penstock.lab.workloads.registry import WORKLOADS, suite_class

if TYPE_CHECKING:
    from penstock.lab.workloads.base import Suite
    from penstock.lab.workloads.throughput import Gateways


def command(workload: str, carry_out: Callable[..., None]) -> TyperCommand:
    """A command with the options of the workload and of `carry_out`, which it calls with the suite."""
    alone = typer.Typer(add_completion=False)
    alone.command(workload, help=inspect.cleandoc(WORKLOADS[workload].help))(_function(workload, carry_out))
    made = get_command(alone)
    assert isinstance(made, TyperCommand)  # noqa: S101 - a single command is not a group
    return made


def measuring(workload: str) -> Callable[..., None]:
    """The function that measures the workload, shows the result, and exits with 0, 1 (failed) or 9 (wrong)."""
    if workload == "gateways":
        return _compare_gateways
    return _measure if WORKLOADS[workload].spark else _measure_without_spark


def _function(workload: str, carry_out: Callable[..., None]) -> Callable[..., None]:
    suite = suite_class(workload)
    own = [option for option in options_of(suite) if not option.option.file_only]

    def function(**given: Any) -> None:
        values = {option.key: given.pop(option.key) for option in own}
        carry_out(suite_of(suite, {key: value for key, value in values.items() if value is not None}), **given)

    _, *others = shared.parameters(carry_out)
    return shared.with_parameters(function, [*map(_parameter, own), *others])


def _parameter(option: SuiteOption) -> inspect.Parameter:
    kind: Any = list[str] if option.option.repeated else option.kind
    switch = option.kind is bool and option.default
    declared = typer.Option(
        f"{option.flag}/--no-{option.name}" if switch else option.flag,
        help=option.option.help,
        min=option.option.least,
        max=option.option.most,
        show_default=option.option.default_note or True,
        rich_help_panel=option.option.panel or None,
    )
    kind = Optional[kind] if option.default is None else kind  # noqa: UP045 - Python 3.10 has no `X | None` for Typer
    return inspect.Parameter(
        option.key, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=Annotated[kind, declared]
    )


def _measure_without_spark(
    suite: Suite,
    *,
    repetitions: options.Repetitions = 1,
    warmup: options.Warmup = 0,
    drop_caches: options.DropCaches = False,
    lake: options.LakeName = None,
) -> None:
    from penstock.lab.experiment import Arm

    runs = run_arms([Arm(suite.title, suite, options.usual_size(), lake)], plan(repetitions, warmup, drop_caches))
    show(plain_console(), runs)
    end_as(runs)


@shared.sized(options.SIZES)
def _measure(
    suite: Suite,
    *,
    repetitions: options.Repetitions = 1,
    warmup: options.Warmup = 0,
    drop_caches: options.DropCaches = False,
    against_plain: options.AgainstPlain = False,
    round_trip: options.RoundTrip = None,
    lake: options.LakeName = None,
    profile: options.Profile = None,
    conf: options.Settings = None,
    conf_penstock: options.PenstockSettings = None,
    conf_plain: options.PlainSettings = None,
    sized: shared.Sized,
) -> None:
    from penstock.lab import conditions, launchers
    from penstock.lab.experiment import Arm

    size = sized(options.usual_size(suite))
    if conf_plain and not against_plain:
        raise InvalidInput("--conf-plain has no arm", why="plain Spark is not measured", fix="add --against-plain")
    every = shared.pairs(conf, "--conf")

    def settings(own: list[str] | None, option: str) -> dict[str, str]:
        return conditions.with_round_trip({**every, **shared.pairs(own, option)}, round_trip)

    ours = Arm(suite.usual_arm, suite, size, lake, profile, settings(conf_penstock, "--conf-penstock"))
    theirs = settings(conf_plain, "--conf-plain")
    plain = [Arm("plain Spark", suite, size, lake, settings=theirs, launcher=launchers.PLAIN)] if against_plain else []
    runs = run_arms([*plain, ours], plan(repetitions, warmup, drop_caches))
    show(plain_console(), runs)
    end_as(runs)


@shared.sized(options.SIZES)
def _compare_gateways(
    suite: Suite,
    *,
    repetitions: options.Repetitions = 3,
    warmup: options.Warmup = 0,
    lake: options.LakeName = None,
    profile: options.Profile = None,
    conf: options.Settings = None,
    sized: shared.Sized,
) -> None:
    from penstock.lab.experiment import Arm

    size = sized(options.usual_size(suite))
    settings = shared.pairs(conf, "--conf")

    def arm(name: str, gateways: int, *, kill: bool = False) -> Arm:
        changed = replace(cast("Gateways", suite), gateways=gateways, kill=kill)
        return Arm(name, changed, size, lake, profile, settings)

    arms = [arm("one gateway", 1), arm("two gateways", 2), arm("one of two killed", 2, kill=True)]
    runs = run_arms(arms, plan(repetitions, warmup, drop_caches=False))
    show(plain_console(), runs)
    end_as(runs)


@app.command("engines")
@shared.sized(options.SIZES)
def engines_command(
    *,
    engines: Annotated[
        str, typer.Option(help="Engines to compare, e.g. spark,sail.", show_default="all installed")
    ] = "",
    scale: Annotated[float, typer.Option(help="TPC-DS scale factor.", min=0.001)] = 1,
    queries: Annotated[Optional[str], typer.Option(help="Queries to run, e.g. q3,q7.")] = None,  # noqa: UP045
    query_set: Annotated[str, typer.Option("--set", help="all (104), io54, or nine.")] = "all",
    repetitions: options.Repetitions = 5,
    warmup: options.Warmup = 0,
    drop_caches: options.DropCaches = False,
    lake: options.LakeName = None,
    sized: shared.Sized,
) -> None:
    """Run TPC-DS on each engine over the same tables, in turns. Exit code 9 if an answer is wrong.

    The results are times, core-seconds and memory; penstock lab price RUN RUN adds the cost. An engine of one process
    gets the cores and memory of an executor. DuckDB outside Penstock verifies every answer from the same files.
    """
    from penstock.engine.engines.registry import ENGINES, engine_named
    from penstock.lab.experiment import Arm
    from penstock.lab.workloads.tpcds import Tpcds

    if engines:
        chosen = [engine_named(name.strip()) for name in engines.split(",")]
    else:
        chosen = [engine for engine in ENGINES.values() if engine.missing() is None]
        for left_out in (engine for engine in ENGINES.values() if engine not in chosen):
            typer.echo(f"Without {left_out.title}, which is not installed (penstock engines list)", err=True)
    given = {"scale": scale, "queries": queries, "set": query_set}
    suite = suite_of(Tpcds, {name: value for name, value in given.items() if value is not None})
    size = sized(options.usual_size(suite))
    arms = [Arm(engine.title, replace(suite, engine=engine.name), size, lake) for engine in chosen]
    runs = run_arms(arms, plan(repetitions, warmup, drop_caches))
    show(plain_console(), runs)
    end_as(runs)


@app.command("startup")
@shared.sized(options.SIZES)
def startup_command(
    *,
    repetitions: options.Repetitions = 10,
    lake: options.LakeName = None,
    profile: Annotated[str, typer.Option(help="Workload profile (penstock profile list).")] = "default",
    sized: shared.Sized,
) -> None:
    """Measure the time from submission to the first task: Penstock against plain spark-submit, in turns."""
    from penstock.lab.environment import Environment
    from penstock.lab.progress import TerminalProgress
    from penstock.lab.workloads import overhead

    console = plain_console()
    bench = Environment.open(Home.default(), lake)
    with TerminalProgress(console).showing() as listener:
        runs = overhead.measure_startup(
            bench, size=sized(options.usual_size()), repetitions=repetitions, profile=profile, listener=listener
        )
    show(console, runs)
    end_as(runs)
