"""The `penstock` command: its sub-commands, loaded when used, and the one place where errors are shown."""

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

from penstock import __version__
from penstock.cli.server import SERVER_VARIABLE, choose, server
from penstock.errors import CatalogError, InvalidInput, PenstockError
from penstock.home import Home

DEFECT_EXIT_CODE = 70
_BROKEN_PIPE_EXIT_CODE = 128 + 13


@dataclass(frozen=True)
class _Command:
    """Where a sub-command lives, and what the overview says of it without loading it."""

    module: str
    attribute: str
    help: str
    panel: str
    passes_arguments: bool = False
    hidden: bool = False
    remote: bool = False
    """Whether it works through a service, too."""
    remote_parts: tuple[str, ...] = ()
    """Those of its sub-commands that do, where not all do."""

    def works_through_a_service(self, arguments: Sequence[str]) -> bool:
        return self.remote or "--help" in arguments or any(part in arguments[:1] for part in self.remote_parts)

    def load(self, name: str) -> Any:
        found = getattr(importlib.import_module(f"penstock.cli.{self.module}"), self.attribute)
        if isinstance(found, typer.Typer):
            return get_command(found)
        alone = typer.Typer(add_completion=False)
        # What follows the application belongs to it, options too.
        settings = {"allow_interspersed_args": False} if self.passes_arguments else {}
        alone.command(name, context_settings=settings)(found)
        return get_command(alone)


_RUN, _DATA, _HERE = "Applications", "Data", "This machine"
_COMMANDS = {
    "run": _Command(
        "run", "run", "Run a Spark application on a cluster of its own.", _RUN, passes_arguments=True, remote=True
    ),
    "sql": _Command("sql", "sql", "Run SQL statements on a cluster of their own.", _RUN, remote=True),
    "apps": _Command("apps", "apps", "List applications, the newest first.", _RUN, remote=True),
    "show": _Command("apps", "show", "Show all that is known of an application.", _RUN, remote=True),
    "logs": _Command("apps", "logs", "Show what an application's processes wrote.", _RUN, remote=True),
    "stop": _Command("apps", "stop", "End an application.", _RUN, remote=True),
    "session": _Command("session", "app", "Clusters for interactive work over Spark Connect.", _RUN, remote=True),
    "queue": _Command("instances", "queue", "Show who waits, and why.", _RUN, remote=True),
    "rerun": _Command("apps", "rerun", "Run an application again, as a new one.", _RUN, remote=True),
    "lake": _Command(
        "lake", "app", "Object stores: start the embedded one, add others, check them.", _DATA, remote_parts=("list",)
    ),
    "tables": _Command("tables", "app", "The catalog's tables.", _DATA, remote=True),
    # `penstock table rewrite T` reads better than `penstock tables rewrite T`; both are right.
    "table": _Command("tables", "app", "The catalog's tables.", _DATA, hidden=True, remote=True),
    "index": _Command(
        "index", "app", "Skipping indexes: files that a query cannot need are not read.", _DATA, remote=True
    ),
    "cache": _Command("cache", "app", "The page cache of this machine.", _DATA, remote_parts=("status",)),
    "cluster": _Command("cluster", "app", "The place where applications run: this machine or Kubernetes.", _HERE),
    "profile": _Command("profile", "app", "The tuned settings, and where each value came from.", _DATA, remote=True),
    "lab": _Command("lab", "app", "Measure workloads, check their answers, report and compare.", _DATA),
    "up": _Command("machine", "up", "Start the embedded lake and catalog, and prepare fast starts.", _HERE),
    "down": _Command("machine", "down", "Stop applications, lake and catalog; nothing is left running.", _HERE),
    "status": _Command("machine", "status", "Show what runs here.", _HERE),
    "doctor": _Command("doctor", "doctor", "Say what works here, and what to do about the rest.", _HERE),
    "wipe": _Command("machine", "wipe", "Remove everything Penstock keeps on this machine.", _HERE),
    "serve": _Command("serve", "serve", "Serve the REST API and the console.", _HERE),
    "instance": _Command("instances", "app", "Shares of the machine, with weights and quotas.", _HERE, remote=True),
    "token": _Command("token", "app", "Access tokens of the service.", _HERE, remote=True),
    "records": _Command("records", "app", "Keep a copy of the engine's records, and bring it back.", _HERE),
    "image": _Command("image", "app", "The container image of Penstock and Spark, built without a daemon.", _HERE),
    "demo": _Command("demo", "demo", "TPC-DS end to end, every answer checked, with a report.", _HERE),
}


class _OnDemand(TyperGroup):
    """Shows every sub-command, loads the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and (wanted := _COMMANDS.get(args[0])):
            if server() and not wanted.works_through_a_service(args[1:]):
                raise _only_here(" ".join(args[: 2 if wanted.remote_parts else 1]))
            self.commands[args[0]] = wanted.load(args[0])
        return super().resolve_command(ctx, args)


def _only_here(name: str) -> InvalidInput:
    """Rather than to do to this machine what was meant for another."""
    return InvalidInput(
        f"penstock {name} works on this machine only",
        why=f"a service is named, by --server or {SERVER_VARIABLE}: {server()}",
        fix=f"on the service's machine: penstock {name}; for this one, unset {SERVER_VARIABLE}",
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
            help="Let a service do it: its address (penstock serve).",
            callback=_choose_server,
        ),
    ] = None,
) -> None:
    """Apache Spark applications, each on its own throw-away cluster, over one shared data lake."""


def command() -> Any:
    group = get_command(_app)
    for name, about in _COMMANDS.items():
        stub = TyperCommand(name=name, help=about.help, rich_help_panel=about.panel, hidden=about.hidden)
        group.commands[name] = stub  # type: ignore[attr-defined]
    return group


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code; a user's mistake is explained, a defect is written down."""
    try:
        command().main(args=arguments, prog_name="penstock")
    except PenstockError as error:
        raise _explained(error) from None
    except BrokenPipeError:
        # Whoever read our output has enough; say nothing, and do not let Python's exit say it either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(_BROKEN_PIPE_EXIT_CODE) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        if lost := _lost_database(error):
            raise _explained(lost) from None
        if os.environ.get("PENSTOCK_DEBUG"):
            raise
        _write_down(error)
        raise SystemExit(DEFECT_EXIT_CODE) from None


def _lost_database(error: Exception) -> PenstockError | None:
    """What is to be said where the database went away in the middle of a command, at whatever statement."""
    # Who met the database has loaded this; the others need not.
    records = sys.modules.get("penstock.engine.repository.applications")
    if records is None or not isinstance(error, records.CONNECTION_LOST):
        return None
    return CatalogError(
        "The database was lost on the way",
        why=str(getattr(error, "orig", error)).strip().partition("\n")[0],
        fix="see that it runs (penstock up starts the embedded one), and look what has become of it: penstock apps",
    )


def _explained(error: PenstockError) -> SystemExit:
    if os.environ.get("PENSTOCK_DEBUG"):
        traceback.print_exc()
    _explain(error)
    return SystemExit(error.exit_code)


def _explain(error: PenstockError) -> None:
    from penstock.cli.console import colours

    red, bold, plain = colours(sys.stderr)
    lines = [f"{red}{bold}{error.problem}{plain}"]
    for label, text in (("why", error.why), ("fix", error.fix)):
        if text:
            lines.append(f"  {bold}{label}{plain}  " + text.replace("\n", "\n       "))
    print("\n".join(lines), file=sys.stderr)


def _write_down(error: Exception) -> None:
    report = "".join(traceback.format_exception(error))
    where = "set PENSTOCK_DEBUG=1 to see it"
    try:
        directory = Home.default().root / "defects"
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = directory / f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.log"
        file.write_text(f"penstock {__version__}\n{report}", encoding="utf-8")
        where = f"written to {file}"
    except OSError:
        pass
    print(
        f"Penstock failed: {type(error).__name__}: {error}\n"
        f"  why  this is a defect of Penstock, not yours\n  fix  report it with the trace, {where}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
