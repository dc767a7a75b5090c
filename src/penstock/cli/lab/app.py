"""The `penstock lab` command group, with a command for each workload; other modules of this package add commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from penstock.lab.workloads.registry import WORKLOADS


class WorkloadGroup(TyperGroup):
    """A group with a command for each workload. It imports a workload only when its command is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in self.workloads():
            self.commands[name] = TyperCommand(name=name, help=inspect.cleandoc(WORKLOADS[name].help))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in self.workloads():
            self.commands[args[0]] = self.made(args[0])
        return super().resolve_command(ctx, args)

    def workloads(self) -> Iterable[str]:
        return WORKLOADS

    def made(self, workload: str) -> TyperCommand:
        from penstock.cli.lab import commands

        return commands.command(workload, commands.measuring(workload))


app = typer.Typer(
    cls=WorkloadGroup,
    help="Measure workloads, verify their results, report and compare runs.",
    no_args_is_help=True,
    add_completion=False,
)
