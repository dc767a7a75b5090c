"""The contract of a cluster backend: launch, observe, stop, collect, release.

A backend decides nothing: it carries out the instructions of the engine's lifecycle and reports what it observes.
Every method may be called again after the engine was killed half-way through it, by another process that has only the
handle; so each is idempotent for one application, and a handle is plain JSON. The engine records the handle before the
launch, so that it leads to whatever an interrupted launch has left behind.
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

MAX_READ_BYTES = 4 << 20


@dataclass(frozen=True)
class Launch:
    """Everything that a backend needs to start one application.

    `settings` are final (profiles, lake, catalog and user merged) and contain no secret. `private_files` maps a file
    name to its secret content (credentials, catalog connection): readable by the owner only, on the driver's and the
    executors' side, and destroyed by `release`. In `environment`, `{private}` stands for their directory on that side,
    and `{published}` for a directory that the driver may write to; `private_file` finds the files in both.
    """

    application_id: str
    spec: ApplicationSpec
    settings: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    private_files: Mapping[str, str] = field(default_factory=dict)
    authorities: str | None = None
    """The private file with certificates (PEM) that the cluster's JVMs trust in addition to Java's own."""
    program: tuple[str, ...] = ()
    """The command of a driver that is not Spark's, and runs alone. `{private}` is as in `environment`, `{cluster}` the
    directory for its `progress.json` and `summary.json`, `{artifacts}` that of its log. `settings` are empty then."""
    lake: Lake | None = None
    """The lake to which a cluster of other machines uploads its artifacts, as `lake.model.artifact_key` names them."""


class Phase(str, enum.Enum):
    """The phase of a cluster, as its backend observes it."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    """The driver has ended with a known exit code."""
    LOST = "lost"
    """The driver is gone, and its exit code is unknown."""


@dataclass(frozen=True)
class Observation:
    """The state of a cluster and of the application on it."""

    phase: Phase
    exit_code: int | None = None
    spark_application_id: str | None = None
    ui_url: str | None = None
    progress: Mapping[str, Any] | None = None
    """The JVM observer's last snapshot (`progress.json`, described in docs/reference/files.md)."""
    detail: str = ""
    """A detail of the phase for users: the last lines of a failed start, the number of lost executors."""
    lost_executors: int = 0
    executors_failed: bool = False
    """True when the backend gave up because executors kept dying."""
    reason: Reason | None = None
    """The obstacle, or the cause of the end, where the backend knows it: no room, no image, a lost node."""
    permanent: bool = False
    """Waiting does not help against `reason`."""
    postponed: bool = False
    """True while the backend has created nothing of the cluster yet."""


@dataclass(frozen=True)
class WebInterface:
    """The address of a driver's Spark UI, which answers only requests with the `key`, where there is one."""

    host: str
    port: int
    key: str | None = field(default=None, repr=False)


class ClusterBackend(abc.ABC):
    """A kind of place for clusters. `name` is recorded in the handles."""

    name: str
    shares_files = True
    """Its clusters find this machine's files under the same paths."""

    @abc.abstractmethod
    def capacity(self) -> Capacity: ...

    def overhead_factor(self, spec: ApplicationSpec) -> float:  # noqa: ARG002 - only pods distinguish Python
        """Return the memory that a process needs beside its heap, as a share of it, unless user settings name one."""
        return layers.DEFAULT_OVERHEAD_FACTOR

    def check(self, spec: ApplicationSpec) -> None:  # noqa: B027 - a backend may have nothing to check
        """Raise `PenstockError` where it is already certain that no cluster can run the application."""

    @abc.abstractmethod
    def handle(self, application_id: str) -> Handle:
        """Return the handle of the application's cluster, whether it exists or not. Has no side effect."""

    @abc.abstractmethod
    def launch(self, launch: Launch) -> None:
        """Start the cluster and the application on it; returns at once.

        A second call for one application does nothing: there is never a second driver. Raises `PenstockError` when the
        cluster cannot start; `release` removes what a failed launch left behind.
        """

    @abc.abstractmethod
    def observe(self, handle: Handle) -> Observation: ...

    @abc.abstractmethod
    def read(self, handle: Handle, name: str, start: int, *, at_most: int = MAX_READ_BYTES) -> bytes:
        """Return the bytes of the artifact `name` (of `collect`) from the offset `start`, while the cluster exists.

        At most `at_most` bytes; empty at the end, or while there is no such artifact.
        """

    @abc.abstractmethod
    def sizes(self, handle: Handle) -> Mapping[str, int]:
        """Return the sizes of the artifacts by name, in bytes, while the cluster exists."""

    @abc.abstractmethod
    def web_interface(self, handle: Handle) -> WebInterface | None:
        """Return the address of the driver's Spark UI; None before it has started and after it has ended.

        A driver that was started without one is requested to start it: call again soon. The address is verified to be
        the driver's: a cluster runs users' code, which may report any address.
        """

    def forward_port(self, handle: Handle, port: int) -> contextlib.AbstractContextManager[int]:  # noqa: ARG002
        """Forward a port of this machine's loopback to that port of the driver's, within the context.

        For HTTP and protocols on top of it. The driver need not listen on the port yet.
        """
        return contextlib.nullcontext(port)

    @abc.abstractmethod
    def private_file(self, handle: Handle, name: str) -> str | None:
        """Return the content of a private file of the driver's, given or published; None where it does not exist.

        It may be a secret that a process of the cluster created: do not store, log or list it.
        """

    @abc.abstractmethod
    def replace_private_file(self, handle: Handle, name: str, content: str) -> None:
        """Replace the content of that file, on every side that has it; do nothing where the cluster is gone.

        Readers find the old content or the new one, never a mixture. Raises `PenstockError` where the file cannot be
        written.
        """

    @abc.abstractmethod
    def stop(self, handle: Handle, *, grace_seconds: float) -> None:
        """Stop the driver, by force after the grace period; return when no process of the cluster is left."""

    @abc.abstractmethod
    def collect(self, handle: Handle, *, incomplete: bool = False) -> Path:
        """Collect the artifacts of an ended cluster; return their local directory.

        It contains `driver.log`, `driver.out`, `driver.err`, `executor-<n>.log` …, the event log under `events/`, and
        `summary.json`. Raises `ClusterError` while one of them cannot be collected; with `incomplete`, the directory
        then has those that earlier calls have collected.
        """

    @abc.abstractmethod
    def release(self, handle: Handle) -> None:
        """Remove everything of the cluster on the backend: processes, ports, scratch and private files."""
