"""Where a command's applications are: in the engine of this home, or behind a service (`--server`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.cli.exchange import Exchange
from penstock.cli.server import server
from penstock.home import Home
from penstock.lake.model import Lake
from penstock.model import Application, ApplicationSpec, ClusterSize, Reason, State

if TYPE_CHECKING:
    # With a service, commands do without what talks to the database.
    from penstock.engine.supervisor import OnChange


class Attendant(Protocol):
    """Follows one application to its end; see `Supervisor`, which also drives it there.

    `stop` and `insist` may be called from a signal handler.
    """

    def run(self, application_id: str, on_change: OnChange) -> Application: ...

    def stop(self, reason: Reason) -> None: ...

    def insist(self) -> None: ...


class Target(Protocol):
    """What commands about applications need; `Engine` says what each means and raises."""

    def submit(self, spec: ApplicationSpec) -> Application: ...

    def warnings(self, spec: ApplicationSpec) -> Sequence[str]: ...

    def usual_size(self) -> ClusterSize:
        """Of work of which nobody says how large it is."""

    def detach(self, application_id: str) -> None: ...

    def supervisor(self, application_id: str) -> Attendant: ...

    def reconcile(self) -> Iterable[str]: ...

    def get(self, application_id: str) -> Application: ...

    def list(
        self, *, states: Iterable[State] = (), tags: Iterable[str] = (), limit: int | None = None
    ) -> Sequence[Application]: ...

    def events(self, application_id: str) -> Iterable[Mapping[str, Any]]: ...

    def artefact(self, application_id: str, name: str) -> bytes: ...

    def follow(self, application_id: str, name: str, *, start: int = 0) -> Iterator[bytes]: ...

    def read(self, application: Application, name: str, start: int) -> bytes: ...

    def stop(self, application_id: str) -> Application: ...

    def lake(self, name: str | None = None) -> Lake: ...

    def exchange(self, lake: Lake) -> Exchange: ...


def target() -> Target:
    if url := server():
        from penstock.cli.remote import RemoteEngine

        return RemoteEngine(url)
    from penstock.cli.local import LocalEngine

    return LocalEngine(Home.default())
