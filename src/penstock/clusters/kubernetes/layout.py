"""Paths, ports and labels that the engine and the pods of a cluster share, and the local files in its secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.clusters.backend import Launch
from penstock.runtime import jvm

ROOT = Path("/var/penstock")

PRIVATE = ROOT / "private"
"""The launch's private files, on driver and executors."""

LAUNCH = ROOT / "launch"
"""The launch plan `PLAN`, the executors' template and the application's local files, on the driver and its sidecar."""

KEYS = ROOT / "keys"
"""`TOKEN` and `AUTHENTICATION`, on driver and executors."""

WORK = ROOT / "work"
"""The directory that the driver and its sidecar share; it is lost with the pod."""

CLUSTER = WORK / "cluster"
ARTIFACTS = WORK / "artefacts"

PUBLISHED = WORK / "published"
"""Files that the driver publishes to the engine alone (`{published}` in its environment), served by the sidecar."""

NODES = CLUSTER / "nodes"
"""A file per executor, named by its address, with the name of its node; the driver's `NodeTopology` reads them."""

SCRATCH = ROOT / "scratch"
SCRATCH_MEMORY = ROOT / "scratch-memory"
CACHE = ROOT / "cache"
TEMPORARY = Path("/tmp")  # noqa: S108 - the pod's own

PLAN = "plan.json"
TEMPLATE = "executor.json"
TOKEN = "token"  # noqa: S105 - a file's name
AUTHENTICATION = "spark-secret"

JARS = "penstock-jars:/"
"""The prefix of files that the image holds already: Penstock's own jars, wherever they are installed."""

LOCK = WORK / "driver.lock"
"""Locked by the driver's container while it runs; the kernel releases the lock however the container ends."""

ENDED = WORK / "ended.json"
STOP = WORK / "stop"
KILL = WORK / "kill"

DRIVER_PORT = 7078
BLOCKS_PORT = 7079
SIDECAR_PORT = 7070

DRIVER = "driver"
EXECUTOR = "executor"
SIDECAR = "keeper"

APPLICATION_LABEL = "penstock.io/application"
ROLE_LABEL = "penstock.io/role"
INSTANCE_LABEL = "penstock.io/instance"
EXECUTORS = "penstock.io/executors"
"""An annotation of the driver pod: the planned number of executors, and the requests of each (`cpu`, `memory`)."""

SHARED_SCRATCH = "PENSTOCK_SHARED_SCRATCH"
"""The variable that is set in pods whose scratch volume is a directory of the node, which other pods share."""

NODE_VARIABLE = "PENSTOCK_NODE"
"""The variable with the node's name, in executors whose page cache is on their node."""

TOKEN_HEADER = "X-Penstock-Token"  # noqa: S105 - a header's name


def object_name(application_id: str) -> str:
    """Return the name of the driver pod and of its secret.

    The name is a function of the application, so that repeated launches, by any engine, create one of each.
    """
    return application_id


def local_keys(launch: Launch) -> dict[str, str]:
    """Return the secret's keys that hold the application's local files, and their paths below the launch directory."""
    return {
        f"file-{number}": f"files/{number}/{path.rpartition('/')[2]}" for number, path in enumerate(local_paths(launch))
    }


def local_paths(launch: Launch) -> Sequence[str]:
    spec = launch.spec
    named = (spec.application, *spec.jars, *spec.python_files, *spec.files)
    return [path for path in dict.fromkeys(named) if path.startswith("/") and not path_in_image(path)]


def path_in_image(path: str) -> str | None:
    """Return the path of one of Penstock's own jars below their directory; None for any other file."""
    own = jvm.penstock_jars()
    return Path(path).relative_to(own).as_posix() if Path(path).is_relative_to(own) else None


def local_files_content(launch: Launch) -> Mapping[str, bytes]:
    """Read the application's local files; return them by the secret's keys. Raises `OSError`."""
    return {key: Path(path).read_bytes() for key, path in zip(local_keys(launch), local_paths(launch), strict=True)}
