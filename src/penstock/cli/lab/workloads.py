"""The workloads as lab files name them: with the options their commands have, read as the commands read them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException
from typer.main import get_command

from penstock.cli.lab.suites import TO_SUITE
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.lab.workloads.base import Suite


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
                error.format_message(), fix=f"penstock lab {workload} --help tells the options"
            ) from error
        return suite


def _options(workload: str) -> dict[str, Any]:
    """Typer's options by their names in a file."""
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
    assert isinstance(made, TyperCommand)  # noqa: S101 - one command alone is no group
    return made


def _arguments(name: str, value: Any, option: Any) -> list[str]:
    """What would be typed. A list is typed with commas, or as an option repeated where that is how it is given."""
    flag = option.opts[0]
    if option.is_flag:
        if not isinstance(value, bool):
            raise InvalidInput(f"{name} is not true or false but {value!r}")
        return [flag] if value else list(option.secondary_opts[:1])
    several = value if isinstance(value, list) else [value]
    if any(one is None or isinstance(one, (bool, list, dict)) for one in several):
        raise InvalidInput(f"{name} cannot be {value!r}", fix="write a number, a text, or a list of those")
    texts = [str(one) for one in several]
    return [f"{flag}={text}" for text in (texts if option.multiple else [",".join(texts)])]
