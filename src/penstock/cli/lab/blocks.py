"""`penstock lab blocks`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command

if TYPE_CHECKING:
    from penstock.lab.workloads.blocks import Blocks


@suite_command("blocks", scales=False, spark=False)
def blocks(
    *,
    directory: Annotated[Optional[Path], typer.Option(help="On the device; else the state directory.")] = None,  # noqa: UP045
    size: Annotated[str, typer.Option(help="Of each worker's file: larger than the device's own cache.")] = "1g",
    seconds: Annotated[int, typer.Option(help="For each of the four patterns.", min=1)] = 10,
    depth: Annotated[int, typer.Option(help="Requests in flight for each worker.", min=1, max=1024)] = 1,
    workers: Annotated[int, typer.Option(help="Processes, each with a file of its own.", min=1, max=256)] = 1,
    device: Annotated[
        str,
        typer.Option(help="A RADOS block device of the --lake's Ceph: rbd (fio's own client) or krbd (the kernel's)."),
    ] = "",
) -> Blocks:
    """Measure a block device with fio: 4 KiB random, 64 KiB sequential, without the page cache.

    The device under --directory, or one that is made in the Ceph of --lake for the time, kept as the lake's data are.
    """
    from penstock.lab.workloads.blocks import Blocks

    return Blocks(
        directory=str(directory.absolute()) if directory else "",
        size_bytes=options.size_bytes(size, "--size"),
        seconds=seconds,
        depth=depth,
        workers=workers,
        device=device,
    )
