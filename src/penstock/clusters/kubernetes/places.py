"""Where things are in the pods of a cluster, and on which ports they listen: what engine and pods agree on."""

from __future__ import annotations

from pathlib import Path

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
