"""Paths and ports in the pods of a cluster, on which engine and pods agree, and the local files in its secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.clusters.backend import Launch
from penstock.runtime import jvm

ROOT = Path("/var/penstock")

PRIVATE = ROOT / "private"
"""The launch's private files, on driver and executors."""

LAUNCH = ROOT / "launch"
"""What is started, on the driver: `PLAN`, the executors' template, the application's local files; and `KEYS`."""

KEYS = ROOT / "keys"
"""`TOKEN` and `AUTHENTICATION`, on driver and executors."""

WORK = ROOT / "work"
"""Shared by the driver and its keeper; goes with the pod."""

CLUSTER = WORK / "cluster"
ARTEFACTS = WORK / "artefacts"

PUBLISHED = WORK / "published"
"""What the driver has to tell the engine alone (`{published}` in its environment), and the keeper hands out."""

NODES = CLUSTER / "nodes"
"""A file for each executor, named by its address, with its node's name: the driver's `NodeTopology` looks there."""

SCRATCH = ROOT / "scratch"
SCRATCH_MEMORY = ROOT / "scratch-memory"
CACHE = ROOT / "cache"
TEMPORARY = Path("/tmp")  # noqa: S108 - the pod's own

PLAN = "plan.json"
TEMPLATE = "executor.json"
TOKEN = "token"  # noqa: S105 - a file's name
AUTHENTICATION = "spark-secret"

JARS = "penstock-jars:/"
"""Of an application's files those that are in the image already: Penstock's own, wherever it has them."""

LOCK = WORK / "driver.lock"
"""Held by the driver's container as long as it lives, however it ends: a lock needs nobody to give it back."""

ENDED = WORK / "ended.json"
STOP = WORK / "stop"
KILL = WORK / "kill"

DRIVER_PORT = 7078
BLOCKS_PORT = 7079
KEEPER_PORT = 7070

DRIVER = "driver"
EXECUTOR = "executor"
KEEPER = "keeper"

APPLICATION_LABEL = "penstock.io/application"
ROLE_LABEL = "penstock.io/role"
INSTANCE_LABEL = "penstock.io/instance"
EXECUTORS = "penstock.io/executors"
"""An annotation of the driver pod: how many it is to have, and what each asks for (`number`, `cpu`, `memory`)."""

NODE_VARIABLE = "PENSTOCK_NODE"
"""In the environment of executors whose pages their node keeps: its name."""

TOKEN_HEADER = "X-Penstock-Token"  # noqa: S105 - a header's name


def object_name(application_id: str) -> str:
    """Of the driver pod and of its secret: an application has one of each, whoever makes them and however often."""
    return application_id


def local_keys(launch: Launch) -> dict[str, str]:
    """The secret's keys that hold the application's local files, with their places below the launch directory."""
    return {
        f"file-{number}": f"files/{number}/{path.rpartition('/')[2]}" for number, path in enumerate(local_paths(launch))
    }


def local_paths(launch: Launch) -> Sequence[str]:
    spec = launch.spec
    named = (spec.application, *spec.jars, *spec.python_files, *spec.files)
    return [path for path in dict.fromkeys(named) if path.startswith("/") and not in_image(path)]


def in_image(path: str) -> str | None:
    """Which of Penstock's own jars that is, below their directory; None where it is none."""
    own = jvm.penstock_jars()
    return Path(path).relative_to(own).as_posix() if Path(path).is_relative_to(own) else None


def local_files_content(launch: Launch) -> Mapping[str, bytes]:
    """The application's local files by the secret's keys. Reads them: `OSError`."""
    return {key: Path(path).read_bytes() for key, path in zip(local_keys(launch), local_paths(launch), strict=True)}
