"""`penstock lab dfsio`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command

if TYPE_CHECKING:
    from penstock.lab.workloads.throughput import Dfsio


@suite_command("dfsio")
def dfsio(
    *,
    clients: Annotated[str, typer.Option(help="Numbers of clients, each a point of the curve.")] = "1,2,4,8",
    file_size: Annotated[str, typer.Option(help="Of each file.")] = "64m",
    files: Annotated[
        int, typer.Option(help="Files in all, shared out among the clients; 0: one for each of the most.", min=0)
    ] = 0,
    write: Annotated[bool, typer.Option(help="Measure writing.")] = True,
    read: Annotated[bool, typer.Option(help="Measure reading. All is read and checked anyway.")] = True,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="The numbers of clients in random order.")] = False,
    seed: Annotated[int, typer.Option(help="Of the contents and of the order.", min=0)] = 0,
) -> Dfsio:
    """Measure read and write throughput against the number of clients. Exit code 9 when a byte read is wrong.

    A client is a thread of an executor with one stream at a time to the lake. The same files are written and read with
    each number of clients, so the curve compares equal work.
    """
    from penstock.lab.workloads.throughput import Dfsio

    return Dfsio(
        clients=options.numbers(clients, "--clients", "of clients"),
        file_size_bytes=options.size_bytes(file_size, "--file-size"),
        files=files,
        write=write,
        read=read,
        shuffle=shuffle,
        seed=seed,
    )
