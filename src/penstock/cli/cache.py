"""`penstock cache`: the page cache of this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Optional

import typer

from penstock import units
from penstock.cli import options
from penstock.cli.options import server
from penstock.cli.output import count, share, size
from penstock.home import Home

app = typer.Typer(
    help=(
        "The page cache of this machine: pages of the lake's objects in memory and on disk, shared by all applications "
        "and kept when they end.  Applications fill it as they read and write; none of these commands is required."
    ),
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def status(as_json: options.Json = False) -> None:
    """Show the usage of both tiers and the hit rate of the last applications."""
    seen = _status()
    if as_json:
        typer.echo(json.dumps(seen, indent=2))
        return
    for tier in seen["tiers"]:
        if not tier["budget_bytes"]:
            typer.echo(f"{tier['tier']:<7} off")
            continue
        filling = f"{size(tier['used_bytes'])} of {size(tier['budget_bytes'])}"
        pages = f"{count(tier['pages'])} pages, {count(tier['evictions'])} evicted so far"
        typer.echo(f"{tier['tier']:<7} {filling}, {pages}\n        {tier['directory']}")
    for use in seen["applications"]:
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
        typer.Option(
            help="Size limit in memory, e.g. 4g; 0 disables the tier; “usual” is a tenth of the machine's memory."
        ),
    ] = None,
    disk: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Size limit on disk, e.g. 100g; 0 disables the tier; “usual” is a tenth of the disk."),
    ] = None,
) -> None:
    """Set the size limits of the tiers, for applications that start from now on.

    Memory of the memory tier is not available to applications.
    """
    from dataclasses import replace

    from penstock.clusters import machine

    home = Home.default()
    budgets = machine.configured_budgets(home)
    if memory is not None:
        budgets = replace(budgets, memory_bytes=_bytes(memory, "--memory"))
    if disk is not None:
        budgets = replace(budgets, disk_bytes=_bytes(disk, "--disk"))
    machine.require_room(budgets)
    machine.configure_budgets(home, budgets)
    for tier in machine.page_cache(home):
        typer.echo(f"{tier.name:<7} up to {size(tier.budget_bytes)}")


@app.command()
def warm(
    targets: Annotated[list[str], typer.Argument(metavar="s3a://…|TABLE", help="Addresses, or tables of the catalog.")],
    lake: options.Lake = None,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Concurrent requests.")] = 8,
    as_json: options.Json = False,
) -> None:
    """Load objects into the cache in advance: `penstock cache warm tpcds.store_sales s3a://lake/logs`.

    All partitions of a table are read. Pages that exceed the memory tier go to disk; when both are full, the least used
    pages are evicted.
    """
    from penstock.engine import installation
    from penstock.summary import IoMetrics

    live = sys.stderr.isatty() and not as_json
    progress: Mapping[str, Any] = {}
    for progress in installation.warm(Home.default(), targets, lake=lake, threads=threads):
        if live:
            print(f"\r{_in_words(progress)}\033[K", end="", file=sys.stderr, flush=True)
    if live:
        print("\r\033[K", end="", file=sys.stderr)
    if as_json:
        typer.echo(json.dumps(progress))
        return
    spared = IoMetrics({}, 0, {}, progress["lake"]).cached_bytes
    typer.echo(f"{_in_words(progress)}, of which {size(spared)} were cached already")


@app.command()
def drop(
    prefix: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[s3a://…]", help="Drop only pages of objects below this address."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Empty the cache, or drop the pages of some objects. No data is lost: they are read from the lake again."""
    from penstock.clusters import machine
    from penstock.engine import installation

    home = Home.default()
    if prefix is None:
        freed = machine.drop_pages(machine.page_cache(home))
        typer.echo(json.dumps({"bytes": freed}) if as_json else f"Dropped {size(freed)}")
    else:
        _print_tiers(installation.drop(home, prefix), as_json, lambda tier: f"dropped {count(tier['pages'])} pages")


@app.command()
def verify(as_json: options.Json = False) -> None:
    """Verify every page and drop damaged ones. Applications also verify every page they read."""
    from penstock.engine import installation

    _print_tiers(
        installation.verify(Home.default()),
        as_json,
        lambda tier: (
            f"{count(tier['pages'])} valid pages, {size(tier['bytes'])}; dropped {count(tier['damaged'])} damaged, "
            f"{count(tier['orphans'])} unknown and {count(tier['missing'])} missing"
        ),
    )


def _print_tiers(lines: Iterator[Mapping[str, Any]], as_json: bool, sentence: Any) -> None:
    problem = False
    for line in lines:
        problem = problem or line.get("state") == "unreadable"
        if as_json:
            typer.echo(json.dumps(line))
        elif "dropped" in line:
            typer.echo(f"{line['tier']:<7} {line['dropped']}: {line['problem']}")
        elif line["state"] == "present":
            typer.echo(f"{line['tier']:<7} {sentence(line)}")
        else:
            typer.echo(f"{line['tier']:<7} {line.get('problem', 'empty')}")
    if problem:
        raise typer.Exit(1)


def _bytes(text: str, option: str) -> int | None:
    return None if text == "usual" else units.require_size(text, option, unit="b", example="4g", least=0)


def _in_words(progress: Mapping[str, Any]) -> str:
    return (
        f"{count(progress['objects'])} of {count(progress['of_objects'])} objects, "
        f"{size(progress['bytes'])} of {size(progress['of_bytes'])}"
    )
