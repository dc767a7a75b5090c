"""`penstock cache`: what this machine keeps of the lake, near its clusters."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Optional

import typer

from penstock import units
from penstock.cli import options
from penstock.cli.console import count, share, size
from penstock.cli.server import server
from penstock.errors import InvalidInput
from penstock.home import Home

app = typer.Typer(
    help=(
        "What this machine keeps of the lake: pages of objects, in memory and on disk, shared by all applications and "
        "outliving each of them. Applications fill it as they read and write; nothing here is needed for that."
    ),
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def status(as_json: options.Json = False) -> None:
    """Show both tiers, how full they are, and how much of their reading the last applications had from them."""
    told = _status()
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    for tier in told["tiers"]:
        if not tier["budget_bytes"]:
            typer.echo(f"{tier['tier']:<7} off")
            continue
        filling = f"{size(tier['used_bytes'])} of {size(tier['budget_bytes'])}"
        pages = f"{count(tier['pages'])} pages, {count(tier['evictions'])} evicted so far"
        typer.echo(f"{tier['tier']:<7} {filling}, {pages}\n        {tier['directory']}")
    for use in told["applications"]:
        typer.echo(f"{use['id']}  {share(use['hit_rate'] or 0)} of {size(use['read_bytes'])} from cache  {use['name']}")


def _status() -> Mapping[str, Any]:
    if url := server():
        from penstock.client.client import Client

        found: Mapping[str, Any] = Client(url).get("/v1/cache")
        return found
    from penstock.engine import installation

    return installation.status(Home.default())


@app.command("size")
def set_size(
    memory: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Most bytes in memory, such as 4g; 0 for none; “usual” for a tenth of the machine's."),
    ] = None,
    disk: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Most bytes on disk, such as 100g; 0 for none; “usual” for a tenth of the disk's."),
    ] = None,
) -> None:
    """Set how large the tiers may become; applications started from now on keep to it.

    What the memory tier may take is not promised to applications.
    """
    from dataclasses import replace

    from penstock.clusters import machine

    home = Home.default()
    budgets = machine.chosen_budgets(home)
    if memory is not None:
        budgets = replace(budgets, memory_bytes=_bytes(memory, "--memory"))
    if disk is not None:
        budgets = replace(budgets, disk_bytes=_bytes(disk, "--disk"))
    machine.require_room(budgets)
    machine.choose_budgets(home, budgets)
    for tier in machine.page_cache(home):
        typer.echo(f"{tier.name:<7} up to {size(tier.budget_bytes)}")


@app.command()
def warm(
    targets: Annotated[list[str], typer.Argument(metavar="s3a://…|TABLE", help="Addresses, or tables of the catalog.")],
    lake: options.Lake = None,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Requests on their way at once.")] = 8,
    as_json: options.Json = False,
) -> None:
    """Read objects into the cache before an application does: `penstock cache warm tpcds.store_sales s3a://lake/logs`.

    Of a table all partitions are read. What does not fit into memory goes to disk; what fits in neither pushes out
    what was used least.
    """
    from penstock.engine import installation
    from penstock.summary import LakeUse

    live = sys.stderr.isatty() and not as_json
    told: Mapping[str, Any] = {}
    for told in installation.warm(Home.default(), targets, lake=lake, threads=threads):
        if live:
            print(f"\r{_progress(told)}\033[K", end="", file=sys.stderr, flush=True)
    if live:
        print("\r\033[K", end="", file=sys.stderr)
    if as_json:
        typer.echo(json.dumps(told))
        return
    spared = LakeUse({}, 0, {}, told["lake"]).spared
    typer.echo(f"{_progress(told)}, of which {size(spared)} were there already")


@app.command()
def drop(
    prefix: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[s3a://…]", help="Only pages of objects below this address."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Empty the cache, or drop the pages of some objects. Only time is lost: they are read from the lake again."""
    from penstock.clusters import machine
    from penstock.engine import installation

    home = Home.default()
    if prefix is None:
        freed = machine.drop_pages(machine.page_cache(home))
        typer.echo(json.dumps({"bytes": freed}) if as_json else f"Dropped {size(freed)}")
    else:
        _tell(installation.drop(home, prefix), as_json, lambda tier: f"dropped {count(tier['pages'])} pages")


@app.command()
def verify(as_json: options.Json = False) -> None:
    """Read every page and drop those that are damaged. Applications do the same with every page they use."""
    from penstock.engine import installation

    _tell(
        installation.verify(Home.default()),
        as_json,
        lambda tier: (
            f"{count(tier['pages'])} sound pages, {size(tier['bytes'])}; {count(tier['damaged'])} damaged, "
            f"{count(tier['orphans'])} unknown and {count(tier['missing'])} missing ones are forgotten"
        ),
    )


def _tell(told: Iterator[Mapping[str, Any]], as_json: bool, sentence: Any) -> None:
    problem = False
    for line in told:
        problem = problem or line.get("state") == "unreadable"
        if as_json:
            typer.echo(json.dumps(line))
        elif "dropped" in line:
            typer.echo(f"{line['tier']:<7} {line['dropped']}: {line['problem']}")
        elif line["state"] == "present":
            typer.echo(f"{line['tier']:<7} {sentence(line)}")
        else:
            typer.echo(f"{line['tier']:<7} {line.get('problem', 'nothing is kept there')}")
    if problem:
        raise typer.Exit(1)


def _bytes(text: str, option: str) -> int | None:
    if text == "usual":
        return None
    found = units.parse_size(text)
    if found is None or found < 0:
        raise InvalidInput(f"{option} {text} is not understood", why="it should be a size", fix=f"{option} 4g")
    return found


def _progress(told: Mapping[str, Any]) -> str:
    return (
        f"{count(told['objects'])} of {count(told['of_objects'])} objects, "
        f"{size(told['bytes'])} of {size(told['of_bytes'])}"
    )
