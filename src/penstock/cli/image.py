"""`penstock image`: the container image of Penstock, Spark and all they need."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from penstock import __version__
from penstock.cli import options
from penstock.cli.console import duration, size

app = typer.Typer(
    help="The container image: written without a container daemon, the same bytes each time.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    """The container image: written without a container daemon, the same bytes each time."""


@app.command()
def build(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The OCI archive.")] = Path(
        "penstock.tar"
    ),
    name: Annotated[str, typer.Option(help="What it is called: [REGISTRY/]NAME:TAG.")] = f"penstock:{__version__}",
    base: Annotated[
        Optional[Path],  # noqa: UP045  Typer reads it at run time, also on Python 3.10
        typer.Option(
            metavar="PATH",
            help="What it is built on: a root directory, a tar of one, or an OCI layout or archive of another image, "
            "with Java 17 and this machine's Python. [a root of Debian's packages, made by mmdebstrap]",
        ),
    ] = None,
    more: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--with", metavar="NAME", help="A Python package installed here, for applications; repeatable."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write the image of what is installed here: Penstock, Spark, Python packages, on a base with Java and Python.

    Neither Docker nor a registry is needed. From the same installation and base come the same bytes. Containers run as
    user 1000, or as any user of group 0 (OpenShift). Push it with skopeo copy oci-archive:penstock.tar
    docker://REGISTRY/penstock:TAG, or load it on a node with ctr -n k8s.io images import penstock.tar.

    penstock image build -o penstock.tar --name registry.example.com/penstock:1.0 --with pandas --with pyarrow
    """
    from penstock.image import oci
    from penstock.image.build import build as run

    built = run(output, oci.name(name), base, _tell, more=more or ())
    if as_json:
        layers = [
            {"layer": layer.history, "digest": layer.blob.digest, "bytes": layer.blob.size} for layer in built.layers
        ]
        found = {"name": built.name, "digest": built.digest, "archive": str(output), "bytes": built.size}
        typer.echo(json.dumps({**found, "layers": layers}, indent=2))
        return
    typer.echo(f"{built.name}@{built.digest} {output}")


@app.command()
def base(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The tar of the root.")] = Path(
        "root.tar"
    ),
) -> None:
    """Make the base alone, for builds that are to differ in nothing else: penstock image build --base root.tar.

    Half a minute to some minutes, by the network. Make it anew for Debian's security updates.
    """
    from penstock.image.build import make_base

    make_base(output, _tell)
    typer.echo(str(output))


def _tell(what: str, bytes_: int, seconds: float) -> None:
    print(f"{what}: {size(bytes_)} in {duration(seconds)}", file=sys.stderr, flush=True)
