"""The contract of a query engine: what it can run, at which size, and with which launch plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from penstock.catalog.metastore import Metastore
from penstock.clusters.backend import ClusterBackend, Launch
from penstock.errors import MissingRequirement
from penstock.lake.model import Credentials, Lake
from penstock.lake.sts import Lease
from penstock.model import ApplicationSpec, ClusterSize


@dataclass(frozen=True)
class Access:
    """The lake and the catalog of an application, both open. `credentials` are None for a lake without any."""

    lake: Lake
    credentials: Credentials | Lease | None
    metastore: Metastore


class QueryEngine(ABC):
    """A query engine. Each application runs in one; `program` and `main_class` are those of one with SQL statements.

    `profile` is the workload profile of such an application.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """The name in headings and sentences."""
    program: ClassVar[str]
    main_class: ClassVar[str | None] = None
    has_executors: ClassVar[bool] = True
    """False for an engine of one process, which has no Spark settings either."""
    profile: ClassVar[str] = "default"

    @abstractmethod
    def usual_size(self, usual: ClusterSize) -> ClusterSize:
        """The size of an application that specifies none; `usual` is that of a Spark cluster."""

    @abstractmethod
    def require_installed(self) -> None:
        """Raise `MissingRequirement`, with the command that installs it, where the engine is not on this machine."""

    def missing(self) -> MissingRequirement | None:
        """The error of `require_installed`; None where the engine is installed."""
        try:
            self.require_installed()
        except MissingRequirement as error:
            return error
        return None

    @abstractmethod
    def check(self, spec: ApplicationSpec, backend: ClusterBackend) -> None:
        """Raise `InvalidInput` or `MissingRequirement` where the engine cannot run the application there."""

    @abstractmethod
    def launch(self, application_id: str, spec: ApplicationSpec, access: Access) -> Launch:
        """The launch plan for the backend, with secrets in `private_files` only.

        Raises `InvalidInput` for a lake that the engine cannot read, or whose `ca_file` holds no certificates.
        """
