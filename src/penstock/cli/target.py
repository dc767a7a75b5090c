"""The target of commands: the engine of this home, or a service (`--server`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.cli.options import server
from penstock.engine.engine import Engine, OnWarning
from penstock.engine.interactive.sessions import Exchange, SessionClient
from penstock.home import Home
from penstock.lake.model import Lake
from penstock.model import DEFAULT_INSTANCE, Application, ApplicationSpec, ClusterSize, Reason, State

if TYPE_CHECKING:
    from penstock.catalog.metastore import Metastore
    from penstock.catalog.tables import Table
    from penstock.engine.policy.scheduling import Instance
    from penstock.engine.supervision.supervisor import OnChange


class Follower(Protocol):
    """Follows one application until it ends; `Supervisor` implements it locally.

    `stop` and `force_stop` are safe to call from a signal handler.
    """

    def run(self, application_id: str, on_change: OnChange) -> Application: ...

    def stop(self, reason: Reason) -> None: ...

    def force_stop(self) -> None: ...


class Artifacts(Protocol):
    """See `penstock.engine.artifacts.Artifacts`."""

    def load(self, application_id: str, name: str) -> bytes: ...

    def follow(self, application_id: str, name: str, *, start: int = 0) -> Iterator[bytes]: ...

    def read(self, application: Application, name: str, start: int) -> bytes: ...


class Applications(Protocol):
    """See `ApplicationReader`."""

    def events(self, application_id: str) -> Iterable[Mapping[str, Any]]: ...


class Target(Protocol):
    """The operations that commands on applications need; `Engine` documents them and their errors."""

    @property
    def applications(self) -> Applications: ...

    @property
    def artifacts(self) -> Artifacts: ...

    @property
    def sessions(self) -> SessionClient: ...

    def submit(self, spec: ApplicationSpec, on_warning: OnWarning = ...) -> Application: ...

    def rerun(self, application_id: str, on_warning: OnWarning = ...) -> Application: ...

    def usual_size(self) -> ClusterSize:
        """The size of a cluster for which the user gives none."""

    def detach(self, application_id: str) -> None: ...

    def supervisor(self, application_id: str) -> Follower: ...

    def reconcile(self) -> Iterable[str]: ...

    def get(self, application_id: str) -> Application: ...

    def list(
        self, *, states: Iterable[State] = (), tags: Iterable[str] = (), limit: int | None = None
    ) -> Sequence[Application]: ...

    def stop(self, application_id: str) -> Application: ...

    def lake(self, name: str | None = None) -> Lake: ...

    def exchange(self, lake: Lake) -> Exchange: ...

    def instance(self, name: str | None) -> Instance: ...

    def bytes_below(self, lake: Lake, address: str) -> int | None: ...


def target() -> Target:
    if url := server():
        from penstock.client.remote import RemoteEngine

        return RemoteEngine(url)

    return Engine(Home.default())


def usual_instance(at: Target) -> str:
    """The instance of who names none: the token's only one, else the default one."""
    return at.instance(None).name if server() else DEFAULT_INSTANCE


def catalog_tables(pattern: str | None) -> list[Table]:
    """The tables whose name, or full name, matches a shell pattern; None for all."""
    if url := server():
        from penstock.catalog.tables import Table
        from penstock.client.client import Client

        params = {} if pattern is None else {"pattern": pattern}
        return [Table.from_json(item) for item in Client(url).get("/v1/tables", **params)["items"]]
    return _metastore().tables(pattern)


def catalog_table(name: str) -> Table:
    """Raises `NotFound`."""
    if url := server():
        from penstock.catalog.tables import Table
        from penstock.client.client import Client

        return Table.from_json(Client(url).get(f"/v1/tables/{name}"))
    return _metastore().table(name)


def _metastore() -> Metastore:
    from penstock.catalog.database import Database
    from penstock.catalog.metastore import Metastore

    return Metastore(Database(Home.default()))
