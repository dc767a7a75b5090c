"""`penstock cluster`: where applications run, on this machine or on a Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import options
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.clusters.kubernetes.preflight import Finding

app = typer.Typer(
    help=(
        "Where applications run: as processes of this machine, or as pods of a Kubernetes or OpenShift that a file "
        "tells of. What you type stays the same: penstock run, sql, lab."
    ),
    no_args_is_help=True,
    add_completion=False,
)

_EXAMPLE = """\
# Where penstock runs applications, and how their pods are made. Keep it with: penstock cluster use FILE
kind: kubernetes
namespace: penstock                 # kubectl create namespace penstock
image: registry.example/penstock:1  # penstock image build makes one; push it where the nodes can pull it
# kubeconfig: /home/me/.kube/config # left out: $KUBECONFIG, ~/.kube/config, or, in a pod, its own service account
# context: production
# pull_policy: IfNotPresent         # Always, IfNotPresent, Never
# pull_secrets: [registry-login]
# service_account: penstock-driver  # the drivers': they make executors
# executor_service_account: penstock-executor
# labels: {team: analytics}
# annotations: {}
# node_selector: {pool: spark}
# tolerations: [{key: spark, operator: Exists}]
# affinity: {}
# priority_class: batch
# cpu_request: 1.0                  # how much of each core is kept for a pod; the limit are whole cores
# overhead: 0.10                    # of the heap, for what a process needs beside it; left out: as Spark has it, 0.10,
#                                   # and 0.40 for Python; at least 384 MiB; spark.*.memoryOverhead of users wins
# scratch: {medium: disk, size: 20Gi}             # shuffle and spill of each pod: emptyDir; medium: memory counts
#                                                 # as the pod's memory; path: /mnt/nvme is a directory of the nodes
# page_cache:                                     # directories of the nodes that outlive pods (hostPath)
#   disk: {path: /var/lib/penstock/pages, size: 100Gi}
#   memory: {path: /dev/shm/penstock, size: 8Gi}
# environment_from: [secret-with-variables]
# start_timeout_seconds: 600        # without a node or an image for so long, an application fails
# capacity: {cores: 64, memory: 256Gi}            # the most there will ever be: larger clusters are refused. Pods are
#                                                 # made up to it, for an autoscaler to add nodes; left out: clusters
#                                                 # start while today's nodes have room, and larger ones wait
# largest_node: {cores: 16, memory: 64Gi}         # with capacity: no pod will ever find a larger one
# driver_template: {}               # pod templates, below all of the above
# executor_template: {}
"""


@app.command()
def example() -> None:
    """Print a cluster file with every key explained."""
    typer.echo(_EXAMPLE, nl=False)


@app.command()
def use(
    file: Annotated[Path, typer.Argument(help="The cluster file (penstock cluster example).")],
    unchecked: Annotated[bool, typer.Option("--unchecked", help="Do not ask the cluster whether it can.")] = False,
) -> None:
    """Run applications on that Kubernetes from now on."""
    from penstock.clusters.choice import own_file
    from penstock.clusters.kubernetes.target import read_target
    from penstock.home import write_atomically

    home = Home.default()
    target = read_target(file)
    _require_idle(home)
    if not unchecked:
        found = _findings(file)
        _print(found)
        if not all(one.good for one in found):
            typer.echo("It is not used: mend that first, or say --unchecked", err=True)
            raise typer.Exit(1)
    home.create()
    write_atomically(own_file(home), file.read_bytes())
    typer.echo(f"Applications run in the namespace {target.namespace} from now on")


@app.command()
def local() -> None:
    """Run applications on this machine from now on."""
    from penstock.clusters.choice import own_file

    home = Home.default()
    _require_idle(home)
    own_file(home).unlink(missing_ok=True)
    typer.echo("Applications run on this machine from now on")


@app.command()
def show() -> None:
    """Show where applications run."""
    from penstock.clusters.choice import cluster_file

    file = cluster_file(Home.default())
    typer.echo("this machine" if file is None else file.read_text(encoding="utf-8"), nl=file is None)


@app.command()
def check(as_json: options.Json = False) -> None:
    """Ask the Kubernetes whether it can run applications; what it lacks, with the commands that mend it.

    The exit code is 1 where it cannot.
    """
    from penstock.clusters.choice import cluster_file
    from penstock.errors import InvalidInput

    file = cluster_file(Home.default())
    if file is None:
        raise InvalidInput(
            "Applications run on this machine",
            why="no Kubernetes was chosen",
            fix="penstock cluster use FILE; penstock doctor",
        )
    found = _findings(file)
    if as_json:
        said = [{"about": one.about, "said": one.said, "fix": one.fix, "good": one.good} for one in found]
        typer.echo(json.dumps(said, indent=2))
    else:
        _print(found)
    raise typer.Exit(0 if all(one.good for one in found) else 1)


def _findings(file: Path) -> list[Finding]:
    from penstock.clusters.kubernetes import preflight
    from penstock.clusters.kubernetes.client import Api, find_access
    from penstock.clusters.kubernetes.target import read_target

    target = read_target(file)
    api = Api(find_access(target.kubeconfig, target.context))
    try:
        return list(preflight.findings(api, target))
    finally:
        api.close()


def _print(found: list[Finding]) -> None:
    for one in found:
        typer.echo(f"  {'✓' if one.good else '✗'} {one.about:<16} {one.said}")
        for line in one.fix.splitlines():
            typer.echo(f"    {'fix':<16} {line}")


def _require_idle(home: Home) -> None:
    """An engine that looks for a cluster elsewhere than where it was started would take it for lost."""
    from penstock.engine.ledger import Ledger
    from penstock.errors import StateError
    from penstock.model import State

    if not home.database.exists():
        return
    alive = [state for state in State if not state.final]
    if found := Ledger(home).list(states=alive, limit=1):
        raise StateError(
            f"{found[0].id} has not ended",
            why="it belongs to where it was started",
            fix="penstock apps; penstock stop ID",
        )
