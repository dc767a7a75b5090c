"""The `penstock` command: sub-commands, loaded on first use, and the display of all errors."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from penstock import __version__, extras
from penstock.cli.options import SERVER_VARIABLE, choose, server
from penstock.errors import CatalogError, InvalidInput, PenstockError
from penstock.home import Home

DEFECT_EXIT_CODE = 70
_BROKEN_PIPE_EXIT_CODE = 128 + 13


@dataclass(frozen=True)
class _Command:
    """A sub-command: its module, and its line in the overview, which loads no module."""

    module: str
    attribute: str
    help: str
    panel: str
    passes_arguments: bool = False
    hidden: bool = False
    remote: bool = False
    """True if it also works through a service."""
    remote_parts: tuple[str, ...] = ()
    """The sub-commands that work through a service, if only some do."""
    extra: str | None = None
    """The extra of the package without whose modules no sub-command works."""

    def works_through_a_service(self, arguments: Sequence[str]) -> bool:
        return self.remote or "--help" in arguments or any(part in arguments[:1] for part in self.remote_parts)

    def load(self, name: str) -> Any:
        found = getattr(importlib.import_module(f"penstock.cli.{self.module}"), self.attribute)
        if isinstance(found, typer.Typer):
            return get_command(found)
        alone = typer.Typer(add_completion=False)
        # Everything after APP is passed to the application, options included.
        settings = {"allow_interspersed_args": False} if self.passes_arguments else {}
        alone.command(name, context_settings=settings)(found)
        return get_command(alone)


_RUN, _DATA, _HERE = "Applications", "Data", "This machine"
_COMMANDS = {
    "run": _Command(
        "applications",
        "run",
        "Run a Spark application on a dedicated cluster.",
        _RUN,
        passes_arguments=True,
        remote=True,
    ),
    "sql": _Command("sql", "sql", "Run SQL statements on a dedicated cluster.", _RUN, remote=True),
    "apps": _Command("applications", "apps", "List applications, newest first.", _RUN, remote=True),
    "show": _Command("applications", "show", "Show the details of an application.", _RUN, remote=True),
    "logs": _Command("applications", "logs", "Print the logs of an application's processes.", _RUN, remote=True),
    "stop": _Command("applications", "stop", "Stop an application.", _RUN, remote=True),
    "session": _Command(
        "sessions", "app", "Clusters for interactive work over Spark Connect or JDBC.", _RUN, remote=True
    ),
    "queue": _Command("service", "queue", "Show the waiting applications and what they wait for.", _RUN, remote=True),
    "rerun": _Command("applications", "rerun", "Run an application again, as a new one.", _RUN, remote=True),
    "lake": _Command(
        "lake.lakes",
        "app",
        "Object stores: start the embedded one, add others, check them.",
        _DATA,
        remote_parts=("list",),
    ),
    "tables": _Command("catalog.tables", "app", "The catalog's tables.", _DATA, remote=True),
    "catalog": _Command("catalog.service", "app", "The catalog for engines other than Spark.", _HERE),
    # `penstock table rewrite T` reads better than `penstock tables rewrite T`; both are right.
    "table": _Command("catalog.tables", "app", "The catalog's tables.", _DATA, hidden=True, remote=True),
    "index": _Command(
        "catalog.index", "app", "Skipping indexes: queries skip files that cannot match.", _DATA, remote=True
    ),
    "cache": _Command("cache", "app", "The page cache of this machine.", _DATA, remote_parts=("status",)),
    "cluster": _Command(
        "cluster", "cluster_app", "The place where applications run: this machine or Kubernetes.", _HERE
    ),
    "profile": _Command("cluster", "profile_app", "Tuned settings, with the source of each value.", _DATA, remote=True),
    "lab": _Command("lab", "app", "Measure workloads, check their answers, report and compare.", _DATA, extra="lab"),
    "engines": _Command("machine", "engines_app", "The engines of penstock sql, and their installation.", _HERE),
    "up": _Command("machine", "up", "Start the embedded lake and catalog.", _HERE),
    "down": _Command("machine", "down", "Stop applications, lake and catalog.", _HERE),
    "status": _Command("machine", "status", "Show the state of lake, catalog and applications.", _HERE),
    "doctor": _Command("machine", "doctor", "Check this installation and explain each finding.", _HERE),
    "wipe": _Command("machine", "wipe", "Delete everything Penstock stores on this machine.", _HERE),
    "serve": _Command("service", "serve", "Serve the REST API and the console.", _HERE, extra="service"),
    "instance": _Command(
        "service", "instances_app", "Instances (queues), with weights and quotas.", _HERE, remote=True
    ),
    "token": _Command("service", "token_app", "Access tokens of the service.", _HERE, remote=True),
    "records": _Command("service", "records_app", "Back up, restore and prune the engine's records.", _HERE),
    "image": _Command(
        "cluster", "image_app", "The container image of Penstock and Spark, built without a daemon.", _HERE
    ),
    "demo": _Command("lab.demo", "demo", "TPC-DS end to end, every answer checked, with a report.", _HERE, extra="lab"),
}


class _ReaderGoneError(Exception):
    """The reader of the command's output closed the pipe."""


class _OnDemand(TyperGroup):
    """A group that lists every sub-command and loads only the one that is called."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # Typer would end with the exit code of a failure.
            raise _ReaderGoneError from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and (wanted := _COMMANDS.get(args[0])):
            if server() and not wanted.works_through_a_service(args[1:]):
                raise _only_here(" ".join(args[: 2 if wanted.remote_parts else 1]))
            if wanted.extra and "--help" not in args:
                # Before the command starts, since some need a module only at the end of long work.
                extras.require(wanted.extra)
            self.commands[args[0]] = wanted.load(args[0])
        return super().resolve_command(ctx, args)


def _only_here(name: str) -> InvalidInput:
    """The refusal of a local command while a service is selected: it would act on the wrong machine."""
    return InvalidInput(
        f"penstock {name} works on this machine only",
        why=f"--server or {SERVER_VARIABLE} selects a service: {server()}",
        fix=f"on the service's machine: penstock {name}; on this machine, unset {SERVER_VARIABLE}",
    )


_app = typer.Typer(cls=_OnDemand, no_args_is_help=True, add_completion=True, rich_markup_mode="markdown")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


def _choose_server(url: str | None) -> None:
    if url:
        choose(url)


@_app.callback()
def _penstock(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
    server: Annotated[
        Optional[str],  # noqa: UP045  Typer reads it at run time, also on Python 3.10
        typer.Option(
            metavar="URL",
            envvar=SERVER_VARIABLE,
            help="Address of the service to use (penstock serve).",
            callback=_choose_server,
        ),
    ] = None,
) -> None:
    """Run Apache Spark applications, each on a dedicated, short-lived cluster, over one shared data lake."""


def command() -> Any:
    group = get_command(_app)
    for name, about in _COMMANDS.items():
        stub = TyperCommand(name=name, help=about.help, rich_help_panel=about.panel, hidden=about.hidden)
        group.commands[name] = stub  # type: ignore[attr-defined]
    return group


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code. Explains users' errors; writes the trace of a defect to a file."""
    try:
        command().main(args=arguments, prog_name="penstock")
    except PenstockError as error:
        raise _explained(error) from None
    except _ReaderGoneError:
        # The reader closed the pipe, which is no error; Python must not report it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(_BROKEN_PIPE_EXIT_CODE) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (missing := extras.explained(error)):
            raise _explained(missing) from None
        if lost := _lost_database(error):
            raise _explained(lost) from None
        if os.environ.get("PENSTOCK_DEBUG"):
            raise
        _write_down(error)
        raise SystemExit(DEFECT_EXIT_CODE) from None


def _lost_database(error: Exception) -> PenstockError | None:
    """The error to show if the database connection was lost during a command."""
    # Only commands that used the database have imported this.
    records = sys.modules.get("penstock.engine.repository.applications")
    if records is None or not isinstance(error, records.CONNECTION_LOST):
        return None
    return CatalogError(
        "The connection to the database was lost",
        why=str(getattr(error, "orig", error)).strip().partition("\n")[0],
        fix="check the database (penstock up starts the embedded one), then the application: penstock apps",
    )


def _explained(error: PenstockError) -> SystemExit:
    if os.environ.get("PENSTOCK_DEBUG"):
        traceback.print_exc()
    _explain(error)
    return SystemExit(error.exit_code)


def _explain(error: PenstockError) -> None:
    from penstock.cli.output import colours, visible

    red, bold, plain = colours(sys.stderr)
    lines = [f"{red}{bold}{visible(error.problem)}{plain}"]
    for label, text in (("why", error.why), ("fix", error.fix)):
        if text:
            lines.append(f"  {bold}{label}{plain}  " + visible(text).replace("\n", "\n       "))
    print("\n".join(lines), file=sys.stderr)


def _write_down(error: Exception) -> None:
    report = "".join(traceback.format_exception(error))
    where = "set PENSTOCK_DEBUG=1 to see it"
    try:
        home = Home.default()
        # `mkdir(parents=True)` gives its mode to the last directory alone.
        home.create()
        directory = home.root / "defects"
        directory.mkdir(exist_ok=True, mode=0o700)
        file = directory / f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.log"
        file.write_text(f"penstock {__version__}\n{report}", encoding="utf-8")
        where = f"written to {file}"
    except (OSError, PenstockError):
        pass
    print(
        f"Penstock failed: {type(error).__name__}: {error}\n"
        f"  why  this is a bug in Penstock\n  fix  report it with the trace, {where}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
