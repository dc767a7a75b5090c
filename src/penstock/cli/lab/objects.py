"""`penstock lab objects`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli import options as shared
from penstock.cli.lab.suites import suite_command
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.lab.workloads.objects import Objects

_LOAD = "The load"
_HOW = "How it is generated"


@suite_command("objects", scales=False, spark=False)
def objects(
    *,
    operation: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="put, get, range, list or delete; get if not given.", show_default=False, rich_help_panel=_LOAD
        ),
    ] = None,
    mix: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Several at once by shares: get=80,put=15,list=4,delete=1.", rich_help_panel=_LOAD),
    ] = None,
    stage: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="An operation or a mix; given again, one after another.", rich_help_panel=_LOAD),
    ] = None,
    size: Annotated[
        str, typer.Option(help="Of the objects: 1m, 4k-1m, or u(1,64)KB as in COSBench.", rich_help_panel=_LOAD)
    ] = "1m",
    range_size: Annotated[str, typer.Option(help="Of each range GET.", rich_help_panel=_LOAD)] = "64k",
    objects: Annotated[int, typer.Option(help="How many are read, and how many written.", rich_help_panel=_LOAD)] = 200,
    containers: Annotated[int, typer.Option(help="Key prefixes they are spread over.", rich_help_panel=_LOAD)] = 1,
    workers: Annotated[
        str, typer.Option(help="Requests in flight; with commas, one count after another.", rich_help_panel=_LOAD)
    ] = "16",
    duration: Annotated[str, typer.Option(help="Of each stage: 30s, 5m.", rich_help_panel=_LOAD)] = "30s",
    rampup: Annotated[str, typer.Option(help="Load before it that is not counted.", rich_help_panel=_LOAD)] = "0s",
    rate: Annotated[
        float,
        typer.Option(
            help="Requests per second on a schedule; latency counts from when each was due. 0: as fast as it "
            "goes, each worker one after another.",
            rich_help_panel=_LOAD,
        ),
    ] = 0.0,
    cosbench: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="A COSBench workload file instead of all of these. Its storage and auth are not used.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    ceiling: Annotated[
        bool,
        typer.Option(
            "--ceiling",
            help="First find the generator's own, against a store that stores nothing.",
            rich_help_panel=_HOW,
        ),
    ] = False,
    processes: Annotated[
        int, typer.Option(help="Of the generator. 0: one for each core.", min=0, max=256, rich_help_panel=_HOW)
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of contents, sizes and order.", rich_help_panel=_HOW)] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the objects in the lake.", rich_help_panel=_HOW)] = False,
) -> Objects:
    """Load the object store itself: rates, latencies to the 99.99th percentile, errors by kind; contents verified.

    The lake's gateways share the workers. Without --rate a worker that waits for a slow answer makes no requests
    meanwhile, so stalls show in the rate over time rather than in the percentiles.
    """
    from penstock.lab.workloads.objects import Objects

    chosen = [name for name, value in (("--operation", operation), ("--mix", mix), ("--stage", stage)) if value]
    if cosbench:
        chosen.append("--cosbench")
    if len(chosen) > 1:
        raise InvalidInput(
            f"{' and '.join(chosen)} exclude each other", fix="for several stages: --stage get --stage put"
        )
    return Objects(
        cosbench=str(cosbench.absolute()) if cosbench else "",
        mixes=tuple(stage or [mix or operation or "get"]),
        size=size,
        objects=objects,
        containers=containers,
        workers=_counts(workers),
        seconds=shared.seconds(duration, "--duration") or 0.0,
        range_size=range_size,
        rampup=shared.seconds(rampup, "--rampup") or 0.0,
        rate=rate,
        processes=processes,
        seed=seed,
        ceiling=ceiling,
        keep=keep,
    )


def _counts(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise InvalidInput(f"--workers {text} is not understood", why="it should be numbers", fix="--workers 1,4,16")
    return tuple(map(int, parts))
