"""`penstock lab etl`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.lab.workloads.pipelines import Etl


@suite_command("etl")
def etl(
    *,
    rows: Annotated[Optional[str], typer.Option(help="Lines of text, e.g. 1m (the default).")] = None,  # noqa: UP045
    size: Annotated[Optional[str], typer.Option(help="Instead: about this much text, e.g. 1g.")] = None,  # noqa: UP045
    bad_share: Annotated[float, typer.Option(help="Of the lines that cannot be read, from 0 to 1.")] = 0.001,
    formats: Annotated[str, typer.Option(help="What to convert to, one after the other.")] = "parquet,orc",
    object_size: options.ObjectSize = "128m",
    seed: Annotated[int, typer.Option(help="Of the generated lines.", min=0)] = 1,
    reload: options.Reload = False,
) -> Etl:
    """Convert delimited text to Parquet and ORC by month; bad lines are kept aside. Exit code 9 when a row is wrong."""
    from penstock.lab.workloads.pipelines import LINE_BYTES, Etl

    if rows is not None and size is not None:
        raise InvalidInput("--rows and --size say the same thing twice", fix="give one of them")
    count = options.count(rows or "1m", "--rows")
    return Etl(
        rows=options.size_bytes(size, "--size") // LINE_BYTES if size else count,
        bad_share=bad_share,
        formats=tuple(name.strip() for name in formats.split(",") if name.strip()),
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        seed=seed,
        reload=reload,
    )
