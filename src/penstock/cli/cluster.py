"""`penstock cluster|image|profile`: where applications run, the container image, and the tuned settings."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from penstock import __version__, units
from penstock.cli import options
from penstock.cli.output import duration, plain_console, size
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.profiles import workloads

if TYPE_CHECKING:
    from penstock.clusters.kubernetes.preflight import Finding
    from penstock.model import ClusterSize
    from penstock.profiles.layers import Resolved, ResolvedSetting


cluster_app = typer.Typer(
    help=(
        "The place where applications run: processes of this machine, or pods of the Kubernetes or OpenShift cluster "
        "that a file describes. The commands stay the same: penstock run, sql, lab."
    ),
    no_args_is_help=True,
    add_completion=False,
)

_EXAMPLE = """\
# The cluster that runs applications, and their pods. Activate it with: penstock cluster use FILE
kind: kubernetes
namespace: penstock                 # kubectl create namespace penstock
image: registry.example/penstock:1  # built by penstock image build; the nodes must be able to pull it
# kubeconfig: /home/me/.kube/config # default: $KUBECONFIG, ~/.kube/config, or in a pod its service account
# context: production
# pull_policy: IfNotPresent         # Always, IfNotPresent, Never
# pull_secrets: [registry-login]
# service_account: penstock-driver  # of the drivers, which create executors
# executor_service_account: penstock-executor
# labels: {team: analytics}
# annotations: {}
# node_selector: {pool: spark}
# tolerations: [{key: spark, operator: Exists}]
# affinity: {}
# priority_class: batch
# cpu_request: 1.0                  # CPU request per core; the limit is the whole core
# overhead: 0.10                    # memory overhead as a share of the heap; default: Spark's, 0.10, or 0.40 for
#                                   # Python, at least 384 MiB; spark.*.memoryOverhead of users takes precedence
# scratch: {medium: disk, size: 20Gi}             # shuffle and spill of each pod: emptyDir; medium: memory counts
#                                                 # as the pod's memory; path: /mnt/nvme is a directory of the nodes
# page_cache:                                     # directories of the nodes that outlive pods (hostPath)
#   disk: {path: /var/lib/penstock/pages, size: 100Gi}
#   memory: {path: /dev/shm/penstock, size: 8Gi}
# environment_from: [secret-with-variables]
# start_timeout_seconds: 600        # an application fails after this time without a node or an image
# capacity: {cores: 64, memory: 256Gi}            # maximum capacity: larger clusters are refused, and pods are created
#                                                 # up to it, so that an autoscaler adds nodes; default: clusters start
#                                                 # while the present nodes have room, and larger ones wait
# largest_node: {cores: 16, memory: 64Gi}         # with capacity: larger pods are refused
# driver_template: {}               # pod templates; all keys above take precedence
# executor_template: {}
"""


@cluster_app.command()
def example() -> None:
    """Print a cluster file with every key explained."""
    typer.echo(_EXAMPLE, nl=False)


@cluster_app.command()
def use(
    file: Annotated[Path, typer.Argument(help="The cluster file (penstock cluster example).")],
    unchecked: Annotated[bool, typer.Option("--unchecked", help="Skip the check of the cluster.")] = False,
) -> None:
    """Run applications on the Kubernetes cluster that FILE describes, from now on."""
    from penstock.clusters.choice import home_cluster_file
    from penstock.clusters.kubernetes.target import read_target
    from penstock.home import write_atomically

    home = Home.default()
    target = read_target(file)
    _require_idle(home)
    if not unchecked:
        found = _findings(file)
        _print(found)
        if not all(one.ok for one in found):
            typer.echo("The cluster file was not activated: correct the failed rows, or use --unchecked", err=True)
            raise typer.Exit(1)
    home.create()
    write_atomically(home_cluster_file(home), file.read_bytes())
    typer.echo(f"Applications run in the namespace {target.namespace} from now on")


@cluster_app.command()
def local() -> None:
    """Run applications on this machine from now on."""
    from penstock.clusters.choice import home_cluster_file

    home = Home.default()
    _require_idle(home)
    home_cluster_file(home).unlink(missing_ok=True)
    typer.echo("Applications run on this machine from now on")


@cluster_app.command()
def show() -> None:
    """Show where applications run."""
    from penstock.clusters.choice import VARIABLE, cluster_file

    file = cluster_file(Home.default())
    try:
        text = "this machine\n" if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"The cluster file {file} cannot be read",
            why=getattr(error, "strerror", None) or "it is not UTF-8 text",
            fix=f"correct {VARIABLE} or unset it, or choose a file anew: penstock cluster use FILE",
        ) from error
    typer.echo(text, nl=False)


@cluster_app.command()
def check(as_json: options.Json = False) -> None:
    """Check whether the Kubernetes cluster can run applications; print what is missing and the commands that add it.

    The exit code is 1 if it cannot.
    """
    from penstock.clusters.choice import cluster_file

    file = cluster_file(Home.default())
    if file is None:
        raise InvalidInput(
            "Applications run on this machine",
            why="no Kubernetes cluster was chosen",
            fix="penstock cluster use FILE; penstock doctor",
        )
    found = _findings(file)
    if as_json:
        said = [{"about": one.subject, "said": one.text, "fix": one.fix, "good": one.ok} for one in found]
        typer.echo(json.dumps(said, indent=2))
    else:
        _print(found)
    raise typer.Exit(0 if all(one.ok for one in found) else 1)


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
        typer.echo(f"  {'✓' if one.ok else '✗'} {one.subject:<16} {one.text}")
        for line in one.fix.splitlines():
            typer.echo(f"    {'fix':<16} {line}")


def _require_idle(home: Home) -> None:
    """Refuse the change while applications run: the engine would look for their clusters in the new place."""
    from penstock.engine.engine import Engine
    from penstock.errors import StateError
    from penstock.model import State

    if not home.database.exists():
        return
    alive = [state for state in State if not state.final]
    if found := Engine(home).list(states=alive, limit=1):
        raise StateError(
            f"{found[0].id} has not ended",
            why="its cluster is in the present place",
            fix="penstock apps; penstock stop ID",
        )


image_app = typer.Typer(
    help="The container image, built reproducibly without a container daemon.",
    no_args_is_help=True,
    add_completion=False,
)


@image_app.callback()
def _group() -> None:
    """The container image, built reproducibly without a container daemon."""


@image_app.command()
def build(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The OCI archive.")] = Path(
        "penstock.tar"
    ),
    name: Annotated[str, typer.Option(help="Name of the image: [REGISTRY/]NAME:TAG.")] = f"penstock:{__version__}",
    base: Annotated[
        Optional[Path],  # noqa: UP045  Typer reads it at run time, also on Python 3.10
        typer.Option(
            metavar="PATH",
            help="Base of the image, with Java 17 and this machine's Python: a root directory, a tar of one, or an OCI "
            "layout or archive.",
            show_default="a root of Debian packages, built by mmdebstrap",
        ),
    ] = None,
    more: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--with",
            metavar="NAME",
            help="Locally installed Python package to add for applications; repeatable. NumPy, pandas and PyArrow are "
            "always in the image.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Build an image of the local installation: Penstock, Spark and Python packages on a base with Java and Python.

    Neither Docker nor a registry is needed. The same installation and base give the same bytes. Containers run as
    user 1000, or as any user of group 0 (OpenShift). Push the image with skopeo copy oci-archive:penstock.tar
    docker://REGISTRY/penstock:TAG, or load it on a node with ctr -n k8s.io images import penstock.tar.

    penstock image build -o penstock.tar --name registry.example.com/penstock:1.0 --with scikit-learn
    """
    from penstock.image import oci
    from penstock.image.build import build as run

    built = run(output, oci.parse_name(name), base, _print_step, more=more or ())
    if as_json:
        layers = [
            {"layer": layer.history, "digest": layer.blob.digest, "bytes": layer.blob.size} for layer in built.layers
        ]
        found = {"name": built.name, "digest": built.digest, "archive": str(output), "bytes": built.size}
        typer.echo(json.dumps({**found, "layers": layers}, indent=2))
        return
    typer.echo(f"{built.name}@{built.digest} {output}")


@image_app.command()
def base(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The tar of the root.")] = Path(
        "root.tar"
    ),
) -> None:
    """Build only the base, which several images can share: penstock image build --base root.tar.

    It takes from half a minute to some minutes, depending on the network. Rebuild it for Debian's security updates.
    """
    from penstock.image.build import make_base

    make_base(output, _print_step)
    typer.echo(str(output))


def _print_step(what: str, bytes_: int, seconds: float) -> None:
    print(f"{what}: {size(bytes_)} in {duration(seconds)}", file=sys.stderr, flush=True)


profile_app = typer.Typer(
    name="profile",
    help="Tuned settings of workloads, with the reason and source of each value.",
    no_args_is_help=True,
    add_completion=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@profile_app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """List the workload profiles and their layers."""
    rows = [
        {
            "name": name,
            "summary": workloads.profile_summary(name),
            "layers": [layer.name for layer in workloads.profile_layers(name)],
        }
        for name in workloads.profile_names()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.table import Table

    table = Table("profile", "for", "layers", box=None, header_style="bold")
    for row in rows:
        table.add_row(str(row["name"]), str(row["summary"]), " < ".join(row["layers"]))
    plain_console().print(table)


@profile_app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(help="Name of a profile, from penstock profile list.")],
    *,
    executors: Annotated[int, typer.Option(min=1, help="Number of executors.")] = 1,
    executor_cores: Annotated[int, typer.Option(min=1, help="Cores of each executor.")] = 2,
    executor_memory: Annotated[str, typer.Option(help="Heap of each executor, e.g. 4g.")] = "4g",
    driver_cores: Annotated[int, typer.Option(min=1, help="Cores of the driver.")] = 1,
    driver_memory: Annotated[str, typer.Option(help="Heap of the driver, e.g. 2g.")] = "2g",
    conf: Annotated[
        list[str] | None, typer.Option("--conf", help="KEY=VALUE, a Spark setting of your own, to see its effect.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a profile's settings for a cluster size: value, layer, reason, source and the value it replaced."""
    from penstock.model import ClusterSize, ProcessSize
    from penstock.profiles.check import check, raise_errors
    from penstock.profiles.known import bundled_registry
    from penstock.profiles.layers import resolve

    size = ClusterSize(
        driver=ProcessSize(driver_cores, units.require_size(driver_memory, "--driver-memory", unit="m")),
        executor=ProcessSize(executor_cores, units.require_size(executor_memory, "--executor-memory", unit="m")),
        executors=executors,
    )
    layers = workloads.profile_layers(name)
    user = options.pairs(conf, "--conf")
    if user:
        problems = check(user, bundled_registry(), size=size, beneath=resolve(layers, size).values())
        raise_errors(problems)
        for problem in problems:
            typer.echo(f"{problem.severity.value}: {problem}", err=True)
    resolved = resolve(layers, size, user)
    if as_json:
        typer.echo(json.dumps([_as_json(setting) for setting in resolved], indent=2))
    else:
        _print_profile(name, size, resolved)


def _as_json(setting: ResolvedSetting) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "key": setting.key,
        "value": setting.value,
        "layer": setting.origin.layer,
        "reason": setting.origin.reason,
        "source": setting.origin.source,
        "origins": [asdict(origin) for origin in setting.origins],
        "overridden": [asdict(origin) for origin in setting.overridden],
    }


def _print_profile(name: str, size: ClusterSize, resolved: Resolved) -> None:
    from rich.text import Text

    write = partial(plain_console().print, soft_wrap=True)
    title = Text.assemble(
        "Profile ",
        (name, "bold"),
        f" on {size.executors} executor(s) of {size.executor.cores} core(s) and "
        f"{size.executor.memory_bytes >> 20} MiB, driver of {size.driver.cores} core(s) and "
        f"{size.driver.memory_bytes >> 20} MiB\n",
    )
    write(title)
    for setting in resolved:
        write(Text.assemble((setting.key, "bold"), " = ", (setting.value, "green")))
        # A value that is a list has a reason for each part.
        for origin in setting.origins if not setting.overridden else (setting.origin,):
            write(Text(f"    {origin.layer}: {origin.reason}"))
            write(Text(f"    source: {origin.source}", style="dim"))
        for gone in reversed(setting.overridden):
            write(Text(f"    instead of {gone.value} ({gone.layer})", style="yellow"))
