"""The service over fakes, with one instance, one lake whose keys are `KEYS`, and callers by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from starlette.testclient import TestClient

from penstock.engine.policy.scheduling import Instance
from penstock.engine.repository.listing import Page, Query
from penstock.engine.tokens import Scope
from penstock.errors import NotFound
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.model import Application
from tests.unit.service.fakes import BEGAN, FakeEngine, Stage

AT = BEGAN
KEYS = Credentials("OWN-ACCESS", "own-secret")


class DialectEngine(FakeEngine):
    """An engine with pages by number and lookup by prefixes of ids, which records queries and stops."""

    def __init__(self) -> None:
        super().__init__(known={"team": Instance("team"), "other": Instance("other")})
        self.queries: list[Query] = []
        self.stops: list[str] = []

    def get(self, application_id: str) -> Application:
        for known in self.submitted.values():
            if known.id.startswith(application_id):
                return known
        raise NotFound(f"There is no application “{application_id}”", fix="penstock apps lists them")

    def become(self, application_id: str, **changes: object) -> None:
        self.submitted[application_id] = replace(self.get(application_id), **changes)  # type: ignore[arg-type]

    def request_stop(self, application_id: str) -> Application:
        self.stops.append(application_id)
        return self.get(application_id)

    def page(self, query: Query) -> Page:
        self.queries.append(query)
        found = [
            known
            for known in self.list()
            if known.spec.instance in query.instances and (not query.states or known.state in query.states)
        ]
        begin = int(query.page or 0)
        end = begin + query.limit
        return Page(
            found[begin:end],
            next=str(end) if end < len(found) else None,
            previous=str(max(begin - query.limit, 0)) if begin else None,
        )


class World(Stage):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.home = self.service.home
        self.home.create()
        self.lake = Lakes(self.home).add(Lake("lake", ("http://127.0.0.1:9",), "lake", "file:lake"), KEYS)
        self.records = DialectEngine()
        self.service.engine = self.records  # type: ignore[assignment]

    def named(self, name: str = "submitter") -> TestClient:
        """Return a client: `reader` and `submitter` see “team”, `administrator` all instances; others have no token."""
        if name == "administrator":
            return self.client(Scope.ADMINISTER)
        scope = {"reader": Scope.READ, "submitter": Scope.SUBMIT}.get(name)
        return self.client(scope, "team")
