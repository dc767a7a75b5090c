"""`penstock lab ingest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command

if TYPE_CHECKING:
    from penstock.lab.workloads.throughput import Ingest


@suite_command("ingest")
def ingest(
    *,
    duration: Annotated[str, typer.Option(help="How long they write, e.g. 60s, 30m or 24h.")] = "60s",
    writers: Annotated[int, typer.Option(help="Writers at once.", min=1)] = 8,
    object_size: options.ObjectSize = "16m",
    rate: Annotated[Optional[str], typer.Option(help="Bytes a second of all together, e.g. 100m.")] = None,  # noqa: UP045
    keep: Annotated[bool, typer.Option("--keep", help="Leave the objects in the lake.")] = False,
    seed: Annotated[int, typer.Option(help="Of the contents.", min=0)] = 0,
) -> Ingest:
    """Let many writers put objects for a set time, then read every one back. Exit code 9 when any is not right.

    Without --rate they write as fast as it goes. An object that is missing, too many or different is named.
    """
    from penstock.lab.workloads.throughput import Ingest

    return Ingest(
        seconds=options.seconds(duration, "--duration"),
        writers=writers,
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        bytes_per_second=options.size_bytes(rate, "--rate") if rate else 0,
        keep=keep,
        seed=seed,
    )
