"""The contract of a cluster backend: launch, observe, stop, collect, release.

A backend never decides: the engine's lifecycle says what to do, the backend does it and tells what it sees.
Every method may be called again after the engine was killed half-way through it, by another process that has only the
handle; so each is idempotent for one application, and a handle is plain JSON. It is known before the launch: recorded
first, it leads to whatever a launch that was cut short has left behind.
"""

from __future__ import annotations

import abc
import contextlib
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.lake.model import Lake
from penstock.model import ApplicationSpec, Capacity, Reason
from penstock.profiles import layers

Handle = Mapping[str, Any]

READ_AT_ONCE = 4 << 20


@dataclass(frozen=True)
class Launch:
    """All a backend needs to start one application.

    `settings` are final (profiles, lake, catalog and user merged) and hold no secret. `private_files` maps a file name
    to its secret content (credentials, catalog connection): written readable by the owner only, on the driver's and the
    executors' side, and destroyed by `release`. `environment` may point at them through `{private}`, the directory they
    are in on that side, and at a directory that the driver may write to through `{published}`: what it puts there is
    found by `private_file` as well.
    """

    application_id: str
    spec: ApplicationSpec
    settings: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    private_files: Mapping[str, str] = field(default_factory=dict)
    authorities: str | None = None
    """Which of the private files holds certificates (PEM) that the cluster's JVMs trust beside Java's own."""
    lake: Lake | None = None
    """The lake to which a cluster of other machines uploads its artifacts, as `lake.model.artifact_key` names them."""


class Phase(str, enum.Enum):
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    """The driver is gone and its exit code is known."""
    LOST = "lost"
    """The driver is gone and nobody knows how it ended."""


@dataclass(frozen=True)
class Observation:
    phase: Phase
    exit_code: int | None = None
    spark_application_id: str | None = None
    ui_url: str | None = None
    progress: Mapping[str, Any] | None = None
    """The JVM observer's last snapshot (`progress.json`, described in docs/reference/files.md)."""
    detail: str = ""
    """What a user should know about the phase: the last lines of a failed start, how many executors were lost."""
    lost_executors: int = 0
    executors_failed: bool = False
    """True when the backend gave up because executors kept dying."""
    reason: Reason | None = None
    """What stands in its way, or ended it, where the backend itself knows: no room, no image, a lost node."""
    hopeless: bool = False
    """Waiting will not mend what the reason says."""


@dataclass(frozen=True)
class WebInterface:
    """Where a driver shows Spark's own pages. They answer those only who bring the `key`, where there is one."""

    host: str
    port: int
    key: str | None = field(default=None, repr=False)


class ClusterBackend(abc.ABC):
    name: str
    shares_files = True
    """Whether its clusters find this machine's files under their own paths."""

    @abc.abstractmethod
    def capacity(self) -> Capacity: ...

    def overhead_factor(self, spec: ApplicationSpec) -> float:  # noqa: ARG002 - pods tell Python from Java
        """The part of each heap that its process needs beside it, where the user's settings name none."""
        return layers.FACTOR

    def check(self, spec: ApplicationSpec) -> None:  # noqa: B027 - a backend may know of nothing
        """Raise `PenstockError` where it is known already that no cluster could be had for it."""

    @abc.abstractmethod
    def handle(self, application_id: str) -> Handle:
        """How the cluster of this application is, or will be, known to this backend; nothing happens."""

    @abc.abstractmethod
    def launch(self, launch: Launch) -> None:
        """Start the cluster and the application on it; returns at once.

        Called twice for one application id it does nothing the second time: it never starts a second driver. Raises
        `PenstockError` when it cannot start; what it left behind is for `release`.
        """

    @abc.abstractmethod
    def observe(self, handle: Handle) -> Observation: ...

    @abc.abstractmethod
    def read(self, handle: Handle, name: str, start: int, *, at_most: int = READ_AT_ONCE) -> bytes:
        """What the artefact `name` (as `collect` calls it) has gained since byte `start`, while the cluster lives.

        At most `at_most` bytes; empty at the end, or where there is no such artefact (yet).
        """

    @abc.abstractmethod
    def sizes(self, handle: Handle) -> Mapping[str, int]:
        """The artefacts there are while the cluster lives, by their names, with how many bytes each has now."""

    @abc.abstractmethod
    def web_interface(self, handle: Handle) -> WebInterface | None:
        """The driver's own Spark UI; None where there is none (yet, or any more). A driver that was started without one
        is asked to open it: look again soon.

        Verified to be the driver's: a cluster runs users' code, which may tell of any address.
        """

    def reach(self, handle: Handle, port: int) -> contextlib.AbstractContextManager[int]:  # noqa: ARG002
        """A port of this machine's loopback that leads to that one of the driver's, as long as it is entered.

        For HTTP and what is built on it. Nothing need listen there yet.
        """
        return contextlib.nullcontext(port)

    @abc.abstractmethod
    def private_file(self, handle: Handle, name: str) -> str | None:
        """What is in that private file of the driver's, given or published; None where there is none (yet, any more).

        It may be a secret that a process of the cluster made: not to be kept, logged or listed.
        """

    @abc.abstractmethod
    def replace_private_file(self, handle: Handle, name: str, content: str) -> None:
        """Put `content` in place of that file, on every side that has it; nothing where the cluster is gone.

        Its processes find the old content or the new one, never part of either. Raises `PenstockError` where it cannot
        be written.
        """

    @abc.abstractmethod
    def stop(self, handle: Handle, *, grace_seconds: float) -> None:
        """Ask the driver to end, insist after the grace; returns when no process of the cluster is left."""

    @abc.abstractmethod
    def collect(self, handle: Handle) -> Path:
        """A local directory with what is worth keeping: `driver.log`, `driver.out`, `driver.err`,
        `executor-<n>.log` …, the event log under `events/`, and `summary.json`."""

    @abc.abstractmethod
    def release(self, handle: Handle) -> None:
        """Remove everything of the cluster on the backend: processes, ports, scratch and private files."""
