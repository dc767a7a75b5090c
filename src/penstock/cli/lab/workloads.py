"""Commands generated from workloads: each with its own and the shared options, which lab files may use as well."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from rich.console import Console
from typer.core import TyperCommand
from typer.exceptions import TyperException
from typer.main import get_command

from penstock.cli.lab import options, scale
from penstock.cli.lab.app import app
from penstock.cli.lab.measure import plan, run_arms
from penstock.cli.lab.reports import end_as, show
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.workloads.base import Suite


TO_SUITE: dict[str, Callable[..., Suite]] = {}
"""The function with only the workload's own options, for each workload that is a command."""


def suite_command(
    name: str, *, scales: bool = True, spark: bool = True
) -> Callable[[Callable[..., Suite]], Callable[..., None]]:
    """Generate a command from a function that turns a workload's own options into its suite.

    The command also has the shared options: repetitions, baseline, lake and cluster size. It measures, shows the
    results, and exits with 0, 1 (a repetition failed) or 9 (a result was wrong). A workload that `scales` with a
    cluster's cores also gets a command of `penstock lab scale`. Without `spark`, the command has no options of Spark.
    """

    def decorate(to_suite: Callable[..., Suite]) -> Callable[..., None]:
        command = _combined(to_suite, _measure_and_show if spark else _measure_without_spark)
        app.command(name)(command)
        if scales:
            scale.app.command(name)(_combined(to_suite, scale.measure_curve))
        described_by_files(name, to_suite)
        return command

    return decorate


def described_by_files(name: str, to_suite: Callable[..., Suite]) -> None:
    """Register a workload for lab files, with the options of the function that turns them into its suite."""
    TO_SUITE[name] = _combined(to_suite, lambda suite: suite)


def _combined(to_suite: Callable[..., Suite], carry_out: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the options of both functions, which passes the suite of the first to the second."""
    own, shared = _parameters(to_suite), _parameters(carry_out, but="suite")

    @functools.wraps(to_suite)
    def command(**given: Any) -> Any:
        suite = to_suite(**{p.name: given.pop(p.name) for p in own})
        return carry_out(suite, **given)

    parameters = [*own, *shared]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameters(function: Callable[..., Any], *, but: str = "") -> list[inspect.Parameter]:
    """The parameters with resolved annotations, as Typer needs them, without those of types imported late."""
    wanted = [p for p in inspect.signature(function).parameters.values() if p.name != but]
    only = types.SimpleNamespace(__annotations__={p.name: p.annotation for p in wanted})
    hints = get_type_hints(only, globalns=function.__globals__, include_extras=True)
    return [p.replace(annotation=hints[p.name]) for p in wanted]


def _measure_without_spark(
    suite: Suite,
    *,
    repetitions: options.Repetitions = 1,
    warmup: options.Warmup = 0,
    drop_caches: options.DropCaches = False,
    lake: options.LakeName = None,
) -> None:
    from penstock.lab import experiment
    from penstock.lab.experiment import Arm, Plan

    plan = Plan(repetitions, warmup, experiment.DROP if drop_caches else experiment.KEEP)
    runs = run_arms([Arm(suite.title, suite, options.cluster_size(), lake)], plan)
    show(Console(), runs)
    end_as(runs)


def _measure_and_show(
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
    driver_memory: options.DriverMemory = None,
    executors: options.Executors = None,
    executor_cores: options.ExecutorCores = None,
    executor_memory: options.ExecutorMemory = None,
) -> None:
    from penstock.clusters import choice
    from penstock.lab import conditions, launchers
    from penstock.lab.experiment import Arm

    default = suite.default_size(choice.capacity(Home.default()))
    size = options.cluster_size(driver_memory, executors, executor_cores, executor_memory, default=default)
    own = conditions.added(options.spark_settings(conf), round_trip)
    ours = Arm("Penstock", suite, size, lake, profile, own)
    far = conditions.added({}, round_trip)
    plain = [Arm("plain Spark", suite, size, lake, settings=far, launcher=launchers.PLAIN)] if against_plain else []
    runs = run_arms([*plain, ours], plan(repetitions, warmup, drop_caches))
    show(Console(), runs)
    end_as(runs)


class CommandWorkloads:
    """`--object-size 32m` of a command is `object_size: 32m` in a file, and `--no-validate` is `validate: false`."""

    def names(self) -> Sequence[str]:
        return sorted(TO_SUITE)

    def options(self, workload: str) -> Sequence[str]:
        return sorted(_options(workload))

    def suite(self, workload: str, options: Mapping[str, Any]) -> Suite:
        known = _options(workload)
        arguments = [text for name, value in options.items() for text in _arguments(name, value, known[name])]
        try:
            suite: Suite = _parser(workload).main(arguments, prog_name=workload, standalone_mode=False)
        except TyperException as error:
            raise InvalidInput(
                error.format_message(), fix=f"penstock lab {workload} --help lists the options"
            ) from error
        return suite


def _options(workload: str) -> dict[str, Any]:
    """Typer's options by their names in a lab file."""
    return {
        option.opts[0].lstrip("-").replace("-", "_"): option
        for option in _parser(workload).params
        if option.name != "help"
    }


@functools.cache
def _parser(workload: str) -> TyperCommand:
    alone = typer.Typer(add_completion=False)
    alone.command(workload)(TO_SUITE[workload])
    made = get_command(alone)
    assert isinstance(made, TyperCommand)  # noqa: S101 - a single command is not a group
    return made


def _arguments(name: str, value: Any, option: Any) -> list[str]:
    """Command-line arguments for an option. A list becomes a text with commas, or a repeated option."""
    flag = option.opts[0]
    if option.is_flag:
        if not isinstance(value, bool):
            raise InvalidInput(f"{name} must be true or false, not {value!r}")
        return [flag] if value else list(option.secondary_opts[:1])
    several = value if isinstance(value, list) else [value]
    if any(one is None or isinstance(one, (bool, list, dict)) for one in several):
        raise InvalidInput(f"{name} cannot be {value!r}", fix="write a number, a text, or a list of these")
    texts = [str(one) for one in several]
    return [f"{flag}={text}" for text in (texts if option.multiple else [",".join(texts)])]
