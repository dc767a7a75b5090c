"""`penstock lab kmeans`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command

if TYPE_CHECKING:
    from penstock.lab.workloads.pipelines import KMeans


@suite_command("kmeans")
def kmeans(
    *,
    points: Annotated[str, typer.Option(help="How many, e.g. 1m.")] = "1m",
    dimensions: Annotated[int, typer.Option(help="Numbers a point has, four bytes each.", min=2)] = 20,
    clusters: Annotated[int, typer.Option(help="Centres to generate, and to find.", min=1)] = 10,
    iterations: Annotated[int, typer.Option(help="Of the training: always so many.", min=1)] = 20,
    passes: Annotated[int, typer.Option(help="Over the points to find where to start (k-means||).", min=1)] = 5,
    object_size: options.ObjectSize = "64m",
    seed: Annotated[int, typer.Option(help="Of the generated points.", min=0)] = 1,
    reload: options.Reload = False,
) -> KMeans:
    """Train k-means on points from the store. Exit code 9 when the centres found are not those generated."""
    from penstock.lab.workloads.pipelines import KMeans

    return KMeans(
        points=options.count(points, "--points"),
        dimensions=dimensions,
        clusters=clusters,
        iterations=iterations,
        passes=passes,
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        seed=seed,
        reload=reload,
    )
